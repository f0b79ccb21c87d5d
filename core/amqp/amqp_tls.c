#include "core/amqp/amqp_tls.h"

#include <amqp_ssl_socket.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <stdio.h>

/* The library would look at the chain after the handshake and hide what was wrong with it; this
 * stops the handshake, and keeps the reason. */
static int check(int ok, X509_STORE_CTX *store)
{
    SSL *ssl = X509_STORE_CTX_get_ex_data(store, SSL_get_ex_data_X509_STORE_CTX_idx());
    char *why = SSL_CTX_get_app_data(SSL_get_SSL_CTX(ssl));
    if (!ok && why) {
        (void)snprintf(why, TLS_TEXT_BYTES, "%s",
                       X509_verify_cert_error_string(X509_STORE_CTX_get_error(store)));
    }
    return ok;
}

bool tls_socket(amqp_connection_state_t conn, const char *host, char why[TLS_TEXT_BYTES],
                amqp_socket_t **ret, struct fault *f)
{
    amqp_socket_t *socket = amqp_ssl_socket_new(conn);
    if (!socket) {
        return fault_set(f, FAULT_MEMORY, "could not make a TLS socket");
    }
    SSL_CTX *tls = amqp_ssl_socket_get_context(socket);
    X509_VERIFY_PARAM *peer = SSL_CTX_get0_param(tls);
    bool named = X509_VERIFY_PARAM_set1_ip_asc(peer, host) == 1 ||
                 X509_VERIFY_PARAM_set1_host(peer, host, 0) == 1;
    if (!named || SSL_CTX_set_min_proto_version(tls, TLS1_2_VERSION) != 1) {
        return fault_set(f, FAULT_CONFIG, "could not set TLS up for the host %s", host);
    }
    if (SSL_CTX_set_default_verify_paths(tls) != 1) {
        return fault_set(f, FAULT_CONFIG, "the system's certificates cannot be read");
    }
    why[0] = '\0';
    (void)SSL_CTX_set_app_data(tls, why);
    SSL_CTX_set_verify(tls, SSL_VERIFY_PEER, check);
    /* OpenSSL compares the name itself, also an address, which the library cannot */
    amqp_ssl_socket_set_verify_hostname(socket, 0);
    *ret = socket;
    return true;
}
