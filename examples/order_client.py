"""examples/order.py with the client for Python: reserve the goods, ask for the price of the shipping, charge the customer,
wait for the payment or a day, ship or refund. Whatever dies meanwhile, each step is done once.

    pip install ./clients/python 'psycopg[binary]'
    psql -c 'CREATE TABLE order_effect ("order" bigint, what text)'
    cd examples && tenon worker --handler 'order=pool:exec python3 -m tenon order_client' --pass-env DATABASE_URL
    psql -c "SELECT tenon.enqueue('order', '{\\"order\\": 17}')"
    tenon signal payment:17 --payload '{"amount": 30}'

A step with a connection commits together with its record: both are there, or neither. One without, elsewhere, may be done
twice when its record is lost: it gets a key by which the other side knows it again.
"""
import os

import psycopg
import tenon

DAY_MS = 86400000


def ask_price(key):
    with open(os.environ.get("PRICES", "/dev/null"), "a", encoding="ascii") as prices:
        prices.write(key + "\n")
    return {"shipping": 5}


@tenon.task
def order(payload: dict, context: tenon.Context) -> dict:
    number = payload["order"]
    with psycopg.connect(os.environ["DATABASE_URL"], autocommit=True) as conn:

        def effect(what):
            conn.execute('INSERT INTO order_effect ("order", what) VALUES (%s, %s)', (number, what))

        def once(what):
            with conn.transaction():
                context.step(what, lambda: effect(what), conn)

        once("reserve")
        price = context.step("price", lambda: ask_price(f"price-{context.id}"))
        once("charge")
        paid = context.wait_signal(f"payment:{number}", payload.get("wait_ms", DAY_MS) / 1000)
        end = "ship" if paid is not None else "refund"  # None: it did not come in time
        once(end)
    return {"order": number, "end": end, "shipping": price["shipping"]}
