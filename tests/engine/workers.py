from contextlib import contextmanager
@contextmanager
def two_workers():
    from distributed import LocalCluster, Client
    with LocalCluster(n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None) as lc, Client(lc) as client:
        yield client, list(client.scheduler_info()["workers"])
