-- Add up what workers counted some minutes ago.
SELECT tenon.fold_minutes();
