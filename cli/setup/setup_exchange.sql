-- The name of the exchange in RabbitMQ.
SELECT exchange
FROM tenon.setting;
