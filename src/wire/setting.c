/* setting.c - a threshold of the judges that somebody changed. */
#include <errno.h>
#include <math.h>

#include "wire/facts.h"

#define REAL_NS_MAX (150 * INT64_C(31557600000000000))

void fact_setting_put(struct buf *out, const struct fact_setting *fact)
{
    buf_put_u64(out, (uint64_t)fact->real_ns);
    buf_put_f64(out, fact->value);
    buf_put_str(out, fact->name);
    buf_put_str(out, fact->who);
}

int fact_setting_get(struct reader in, struct fact_setting *ret)
{
    struct fact_setting fact = { .real_ns = (int64_t)reader_get_u64(&in) };

    fact.value = reader_get_f64(&in);
    reader_get_str(&in, fact.name, sizeof(fact.name));
    reader_get_str(&in, fact.who, sizeof(fact.who));
    if (in.bad || !isfinite(fact.value) || !fact.name[0] || fact.real_ns > REAL_NS_MAX ||
        fact.real_ns < -REAL_NS_MAX)
        return -EPROTO;
    *ret = fact;
    return 0;
}
