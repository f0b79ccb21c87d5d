#include "tests/support/partitions.h"

void partition_begun(struct fixture *fx, const char *parent, const char *ago)
{
    test_sql(fx,
             "SELECT tenon.begin_partition('%s', max(part) + 1) FROM tenon.partition"
             " WHERE parent = '%s'; SELECT tenon.make_partitions();"
             "UPDATE tenon.partition SET begun_at = now() - interval '%s' WHERE parent = '%s' AND"
             " part = (SELECT max(part) FROM tenon.partition WHERE parent = '%s')",
             parent, parent, ago, parent, parent);
}

char *partitions_of(struct fixture *fx, const char *parent)
{
    return test_sql_text(fx,
                         "SELECT count(*) FILTER (WHERE part < last_value) || ' ' ||"
                         " count(*) FILTER (WHERE part >= last_value)"
                         " FROM tenon.partitions() CROSS JOIN tenon.%s_part WHERE parent = '%s'",
                         parent, parent);
}
