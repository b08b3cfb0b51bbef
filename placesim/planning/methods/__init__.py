"""Planning methods: functions of a problem and a search that yield better and better plans."""
