# An image with a handler in Python, from the repository's root, on the image that compose/Dockerfile builds:
#
#   docker build -t tenon -f compose/Dockerfile . && docker build -t shop -f compose/python.Dockerfile .
FROM tenon
USER 0
RUN apt-get update && apt-get install -y --no-install-recommends python3 && rm -rf /var/lib/apt/lists/*
COPY clients/python/src/tenon /usr/lib/python3/dist-packages/tenon
COPY compose/shop.py /app/
WORKDIR /app
RUN python3 -m tenon shop --print-handlers > handlers.conf
USER 10001
CMD ["worker", "--handlers", "/app/handlers.conf"]
