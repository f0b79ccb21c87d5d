-- Tasks may run in this copy. Returns false when it was at home already.
SELECT tenon.adopt();
