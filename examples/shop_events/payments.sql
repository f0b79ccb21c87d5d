-- The service "payments": takes the money of an order that was placed, and says so.
CREATE TABLE public.account AS SELECT 0.00 AS balance;
CREATE TABLE public.payment ("order" bigint NOT NULL, amount numeric NOT NULL);

-- The effect, the event and the end of the task commit together, because tenon-sql finishes the task in the same transaction.
CREATE FUNCTION public.on_order(event jsonb) RETURNS void
LANGUAGE sql AS $$
    UPDATE public.account SET balance = balance + (event->>'total')::numeric;
    INSERT INTO public.payment VALUES ((event->>'order')::bigint, (event->>'total')::numeric);
    SELECT tenon.publish('shop', 'payment.made', jsonb_build_object('order', event->'order'));
$$;
