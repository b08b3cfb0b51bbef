"""Planning methods: functions of a problem and a search that yield increasingly better plans."""
