-- What the ledger's comment says is true of effects in this database as well.

COMMENT ON TABLE effects IS 'The ledger: one row per change to the outside world, written before the change is made; an effect on kv has its row from the commit that makes it.';
