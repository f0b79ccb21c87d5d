-- The service "orders": an order begins here, and learns from the others how far it is.
CREATE TABLE public.orders (id bigint PRIMARY KEY, total numeric NOT NULL, state text NOT NULL DEFAULT 'placed');
CREATE TABLE public.order_event (id bigint NOT NULL, event text NOT NULL);

-- What the application calls: the order and its event, or neither.
CREATE FUNCTION public.place_order(id bigint, total numeric) RETURNS void
LANGUAGE sql AS $$
    INSERT INTO public.orders (id, total) VALUES (place_order.id, place_order.total);
    SELECT tenon.publish('shop', 'order.placed', jsonb_build_object('order', place_order.id, 'total', place_order.total));
$$;

-- The handlers. Events of two other services come in any order: a shipped order stays shipped.
CREATE FUNCTION public.on_payment(event jsonb) RETURNS void
LANGUAGE sql AS $$
    UPDATE public.orders SET state = 'paid' WHERE id = (event->>'order')::bigint AND state = 'placed';
    INSERT INTO public.order_event VALUES ((event->>'order')::bigint, 'paid');
$$;

CREATE FUNCTION public.on_shipment(event jsonb) RETURNS void
LANGUAGE sql AS $$
    UPDATE public.orders SET state = 'shipped' WHERE id = (event->>'order')::bigint;
    INSERT INTO public.order_event VALUES ((event->>'order')::bigint, 'shipped');
$$;
