import assert from "node:assert/strict";
import type { Socket } from "node:net";
import { test } from "node:test";
import { setDefaultCACertificates } from "node:tls";

import { serviceFailure } from "../../src/deliver/service-client.ts";
import type { AttemptResult } from "../../src/domain/webhook/delivery.ts";
import { makeCertificate } from "../helpers/certificate.ts";
import { addresses, startDnsServer } from "../helpers/dns-server.ts";
import type { DnsAnswer } from "../helpers/dns-server.ts";
import { startReceiver } from "../helpers/receiver.ts";
import type { Reply } from "../helpers/receiver.ts";
import { assertSentences } from "../helpers/sentences.ts";
import { requestTo, startByteServer, startSender } from "./sender-setup.ts";

/** The error of an attempt, by cause. Each attempt fails without a status and holds no connection. */
type Causes<Cause> = Readonly<Record<string, Cause>>;

const REPLIES: Causes<Reply> = {
  "no response, closed": { kind: "close" },
  "no response, reset": { kind: "reset" },
  "binary garbage": { kind: "raw", bytes: "\x16\x03\x01\x02\x00garbage\r\n\r\n" },
  "100 Continue without end": { kind: "flood", bytes: "HTTP/1.1 100 Continue\r\n\r\n" },
  "103 Early Hints without end": {
    kind: "flood",
    bytes: "HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n",
  },
  "a status line without end": { kind: "flood", head: "HTTP/1.1 200 ", bytes: "OK" },
  "reset in the status line": { kind: "raw", bytes: "HTTP/1.1 20", end: "reset" },
  "closed after 103": { kind: "raw", bytes: "HTTP/1.1 103 Early Hints\r\n\r\n", end: true },
};

const NAMES: Causes<DnsAnswer> = {
  NXDOMAIN: { kind: "nxdomain" },
  "no addresses": addresses(),
  "CNAME to nothing": {
    kind: "records",
    records: [{ type: "CNAME", value: "gone.example.com" }],
  },
  SERVFAIL: { kind: "servfail" },
  REFUSED: { kind: "refused" },
  "DNS garbage": { kind: "garbage" },
  "1,000 addresses": addresses(
    ...Array.from({ length: 1000 }, (_, index) => `127.1.${index >> 8}.${index & 255}`),
  ),
};

const HANDSHAKES: Causes<(socket: Socket) => void> = {
  "TLS: closed": (socket) => socket.end(),
  "TLS: reset": (socket) => socket.resetAndDestroy(),
  "TLS: closed in the server's first record": (socket) =>
    socket.end(Buffer.from("160303007a020000", "hex")),
  "TLS: plain HTTP": (socket) => socket.write("HTTP/1.1 400 Bad Request\r\n\r\n"),
  "TLS: alert": (socket) => socket.write(Buffer.from("15030300020228", "hex")),
  "TLS: record over the limit": (socket) =>
    socket.write(Buffer.alloc(70_000, Buffer.from("160303ffff", "hex"))),
};

const AUTHORITY = makeCertificate({ commonName: "test authority", isAuthority: true });
const NAMED = { commonName: "hooks.example.com", names: ["hooks.example.com"] };
const CERTIFICATES = {
  "certificate for another name": makeCertificate({
    ...{ commonName: "hooks.example.com", names: ["other.example.com"], issuer: AUTHORITY },
  }),
  "certificate for an address": makeCertificate({
    ...{ commonName: "receiver", addresses: ["127.0.0.1"], issuer: AUTHORITY },
  }),
  "certificate without an authority": makeCertificate(NAMED),
  "expired certificate": makeCertificate({
    ...{ ...NAMED, issuer: AUTHORITY, notAfter: new Date("2020-01-02") },
  }),
};
setDefaultCACertificates([AUTHORITY.cert]);

test("a failed attempt has an error and no status, and closes its connection", async (t) => {
  const dns = await startDnsServer(t);
  const url = "hooks.example.com";
  const receiver = await startReceiver(t);
  const sender = startSender(t, { servers: dns.servers });
  const sentences: [cause: string, sentence: string][] = [];
  const note = (cause: string, { outcome, httpStatus, error }: AttemptResult): void => {
    assert.deepEqual([outcome, httpStatus], ["failed", null], cause);
    sentences.push([cause, error ?? assert.fail(cause)]);
  };

  for (const [cause, answer] of Object.entries(NAMES)) {
    dns.script(url, { A: answer, AAAA: answer });
    note(cause, await sender.send(requestTo(`http://${url}:${receiver.port}/`)));
  }
  assert.equal(receiver.connectionsSeen, 0);
  for (const [cause, reply] of Object.entries(REPLIES)) {
    receiver.answerNext(reply);
    note(cause, await sender.send(requestTo(receiver.url())));
    await receiver.whenDisconnected();
  }
  assert.equal(receiver.requests.length, Object.keys(REPLIES).length);

  dns.script(url, { A: addresses("127.0.0.1") });
  for (const [cause, respond] of Object.entries(HANDSHAKES)) {
    const closed = Promise.withResolvers<void>();
    const { port } = await startByteServer(t, (socket) => {
      socket.once("close", () => closed.resolve());
      socket.once("data", () => respond(socket));
    });
    note(cause, await sender.send(requestTo(`https://127.0.0.1:${port}/`)));
    await closed.promise;
  }
  for (const [cause, tls] of Object.entries(CERTIFICATES)) {
    const secure = await startReceiver(t, { tls });
    note(cause, await sender.send(requestTo(`https://${url}:${secure.port}/`)));
    await secure.whenDisconnected();
    assert.equal(secure.requests.length, 0, cause);
  }
  for (const code of ["ENOTFOUND", "EAI_AGAIN", "EHOSTUNREACH", "EPROTO", "EWHATEVER"]) {
    for (const hasBegun of [false, true]) {
      const error = Object.assign(new Error("127.0.0.1"), { code });
      const failure = serviceFailure(error, { hasBegun });
      assert.equal(failure.kind, "unreachable");
      sentences.push([`service: ${code}${hasBegun ? " in the response" : ""}`, failure.error]);
    }
  }
  assertSentences(t, import.meta.dirname, sentences);
});
