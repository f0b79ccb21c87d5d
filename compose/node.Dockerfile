# An image with a handler in Node, from the repository's root, on the image that compose/Dockerfile builds:
#
#   docker build -t tenon -f compose/Dockerfile . && docker build -t shop -f compose/node.Dockerfile .
FROM tenon
USER 0
RUN apt-get update && apt-get install -y --no-install-recommends nodejs && rm -rf /var/lib/apt/lists/*
COPY clients/node /app/node_modules/tenon-tasks
COPY compose/shop.mjs /app/
WORKDIR /app
RUN node node_modules/tenon-tasks/bin/tenon-node.js --print-handlers ./shop.mjs > handlers.conf
USER 10001
CMD ["worker", "--handlers", "/app/handlers.conf"]
