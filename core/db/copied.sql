-- Is this database a copy? Then a sentence that says so.
SELECT tenon.copied();
