-- A nightly import as a flow: fetch, then images and texts, then ship with what both returned; and a batch that reports
-- when all of its rows have been imported, or sounds an alarm.
--
--     psql -f examples/flow.sql "$DATABASE_URL"
--     tenon cleaner &
--     tenon worker --handler 'fetch=echo "{\"files\": 2}"' --handler 'resize=echo "{\"pixels\": 640}"' \
--         --handler 'index=echo "{\"words\": 1000}"' --handler 'ship=cat' --handler 'import_row=true' --handler 'report=cat'
--     tenon flow list
--
-- `cat` answers with its payload: in the result of the task of kind `ship` stand the results of its parents.
SELECT tenon.flow('{
    "name": "nightly",
    "tasks": [
        {"name": "fetch", "kind": "fetch"},
        {"name": "images", "kind": "resize", "depends_on": ["fetch"]},
        {"name": "texts", "kind": "index", "depends_on": ["fetch"], "payload": {"language": "en"}},
        {"name": "ship", "kind": "ship", "depends_on": ["images", "texts"], "payload": {"parents": null}}
    ]}');

BEGIN;
SELECT tenon.batch(on_done => 'report', on_dead => 'alarm', payload => '{"import": 7}', name => 'import 7') AS batch \gset
SELECT tenon.enqueue_many('import_row', '{1,2,3,4,5}', flow => :batch);
SELECT tenon.close(:batch);
COMMIT;
