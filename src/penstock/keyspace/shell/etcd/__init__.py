"""etcd v3 as the KeySpace. Needs the extra `penstock[etcd]`."""
