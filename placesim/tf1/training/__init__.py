"""Running training: coordinators, queue runners, hooks, monitored sessions and supervisors."""
