-- The service "shipping": sends what was paid, and says so.
CREATE TABLE public.stock AS SELECT 1000000 AS pieces;
CREATE TABLE public.parcel ("order" bigint NOT NULL);

CREATE FUNCTION public.on_payment(event jsonb) RETURNS void
LANGUAGE sql AS $$
    UPDATE public.stock SET pieces = pieces - 1;
    INSERT INTO public.parcel VALUES ((event->>'order')::bigint);
    SELECT tenon.publish('shop', 'order.shipped', jsonb_build_object('order', event->'order'));
$$;
