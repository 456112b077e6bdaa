import assert from "node:assert/strict";
import { once } from "node:events";
import { Agent, request } from "node:https";
import type { TestContext } from "node:test";
import { connect, type ConnectionOptions, type TLSSocket } from "node:tls";

import { makeCertificate, type Certificate } from "../helpers/certificate.ts";

/** A certificate for this machine's loopback address, known by the name. */
export function loopbackCertificate(commonName: string): Certificate {
  return makeCertificate({ commonName, addresses: ["127.0.0.1"] });
}

/** A response and the certificate of its connection. */
export interface HttpsAnswer {
  readonly status: number;
  readonly text: string;
  /** Common name of the certificate that the server showed on this connection. */
  readonly servedBy: string;
}

/** A client that keeps one connection to the server and trusts these certificates alone. */
export interface HttpsClient {
  get(path: string): Promise<HttpsAnswer>;
}

/** Its connection is closed after the test. */
export function httpsClient(
  t: TestContext,
  { url, trust }: { readonly url: string; readonly trust: readonly Certificate[] },
): HttpsClient {
  const ca = trust.map(({ cert }) => cert);
  const agent = new Agent({ keepAlive: true, maxSockets: 1, ca });
  t.after(() => agent.destroy());
  return {
    async get(path) {
      const sent = request(new URL(path, url), { agent });
      sent.end();
      const [response] = await once(sent, "response");
      // Once it is read to the end the response has no socket any more.
      const servedBy = nameOf(response.socket);
      let text = "";
      for await (const chunk of response.setEncoding("utf8")) text += chunk;
      return { status: response.statusCode, text, servedBy };
    },
  };
}

/** A TLS connection after its handshake; rejects if the handshake fails. Closed after the test. */
export async function openTls(
  t: TestContext,
  {
    url,
    ...options
  }: { readonly url: string; readonly allowHalfOpen?: boolean } & ConnectionOptions,
): Promise<TLSSocket> {
  const { hostname, port } = new URL(url);
  assert.match(hostname, /^127\./, "tests send packets to this machine alone");
  const socket = connect({ host: hostname, port: Number(port), ...options });
  t.after(() => socket.destroy());
  await once(socket, "secureConnect");
  return socket;
}

/** All that comes until the server closes. */
export async function readToEnd(socket: TLSSocket): Promise<string> {
  let text = "";
  for await (const chunk of socket.setEncoding("utf8")) text += chunk;
  return text;
}

function nameOf(socket: TLSSocket): string {
  return String(socket.getPeerCertificate().subject.CN);
}
