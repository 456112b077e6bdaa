import assert from "node:assert/strict";
import { test } from "node:test";
import { setDefaultCACertificates } from "node:tls";

import { makeCertificate } from "../helpers/certificate.ts";
import { startDeliveries } from "./deliveries.ts";
import { HAPROXY, HAPROXY_PROGRAM } from "./haproxy.ts";
import { IDN_HOST_ENCODED, MATRIX, taskOf } from "./matrix.ts";
import { NGINX_PROGRAM, startTlsProxy } from "./nginx.ts";
import { areAtHand, canListen, OWN_ADDRESS } from "./peer-process.ts";

const AUTHORITY = makeCertificate({ commonName: "test authority", isAuthority: true });
const CERTIFICATE = makeCertificate({
  commonName: IDN_HOST_ENCODED,
  names: [IDN_HOST_ENCODED],
  addresses: [OWN_ADDRESS],
  issuer: AUTHORITY,
});
setDefaultCACertificates([AUTHORITY.cert]);

// daemon → nginx, which ends TLS → HAProxy, which verifies by X-Forwarded-Proto, Host and target.
test(
  "HAProxy accepts every delivery behind nginx, which ends TLS",
  { timeout: 60_000 },
  async (t) => {
    if (!areAtHand(t, [NGINX_PROGRAM, HAPROXY_PROGRAM])) return;
    const deliveries = await startDeliveries(t);
    const upstream = await HAPROXY.start(t, await deliveries.enter("normal"));
    const setup = { upstream, certificate: CERTIFICATE };
    const { host: address, port } = await startTlsProxy(t, setup);
    const hasDefaultPort = await canListen({ host: OWN_ADDRESS, port: 443 });
    if (hasDefaultPort) await startTlsProxy(t, { ...setup, port: 443 });
    else t.diagnostic("port 443 is not available: the case 'default port' is left out");
    const cases = MATRIX.filter((each) => each.isAtDefaultPort !== true || hasDefaultPort);

    const tasks = cases.map((each) =>
      taskOf(each, { scheme: "https", address, port: each.isAtDefaultPort === true ? 443 : port }),
    );

    for (const [index, statuses] of (await deliveries.statuses(tasks)).entries()) {
      assert.deepEqual(statuses, { postback: 200, pingback: 200 }, cases[index]?.name);
    }
  },
);
