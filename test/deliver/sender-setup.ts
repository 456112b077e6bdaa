import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { type Socket, connect, createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { TestContext } from "node:test";

import { Resolver } from "../../src/deliver/resolver.ts";
import { Sender } from "../../src/deliver/send.ts";
import {
  type ServiceAnswer,
  type ServiceClient,
  type ServicePost,
  createServiceClient,
} from "../../src/deliver/service-client.ts";
import { parseAllowList } from "../../src/domain/address/allow-list.ts";
import { type Clock, systemClock } from "../../src/domain/clock/clock.ts";
import type { SendRequest } from "../../src/domain/webhook/webhook-request.ts";
import {
  type UrlPolicy,
  type WebhookTarget,
  judgeWebhookUrl,
} from "../../src/domain/webhook/webhook-url.ts";
import { closeServer, listen } from "../helpers/receiver.ts";

export interface SenderSetup {
  readonly clock?: Clock;
  readonly timeoutMs?: number;
  /** Entries of webhooks.allow; 127.0.0.1 by default. */
  readonly allow?: readonly string[];
  /** Lines of the hosts file; none by default. */
  readonly hosts?: readonly string[];
  /** Name servers; by default one that refuses connections, so that no packet leaves the machine. */
  readonly servers?: readonly string[];
}

/** A sender that is closed after the test. */
export function startSender(t: TestContext, setup: SenderSetup = {}): Sender {
  const clock = setup.clock ?? systemClock;
  const resolver = new Resolver({
    clock,
    servers: setup.servers ?? ["127.0.0.1:1"],
    hostsFile: writeHosts(t, setup.hosts ?? []),
  });
  const policy = toPolicy(setup.allow ?? ["127.0.0.1"]);
  const sender = new Sender({
    clock,
    resolver,
    policy: () => policy,
    timeoutMs: setup.timeoutMs ?? 10_000,
  });
  t.after(() => {
    sender.abort();
    sender.close();
    resolver.close();
  });
  return sender;
}

/** A request for `url`, which must pass the URL rules with the loopback addresses allowed. */
export function requestTo(url: string, overrides: Partial<SendRequest> = {}): SendRequest {
  return { target: toTarget(url), method: "POST", headers: {}, body: "{}", ...overrides };
}

/** Parses a URL as the product does, with loopback addresses allowed. */
export function toTarget(url: string): WebhookTarget {
  const verdict = judgeWebhookUrl(url, toPolicy(["127.0.0.0/8", "::1", "localhost"]));
  assert(verdict.kind === "allowed", `${url} is refused`);
  return verdict.target;
}

/** The policy of an allow list, on a machine without own names and addresses. */
export function toPolicy(allow: readonly string[]): UrlPolicy {
  const verdict = parseAllowList(allow);
  assert(verdict.kind === "allow-list");
  return { allow: verdict.list, ownNames: [], ownAddresses: [] };
}

/** Writes a hosts file that is removed after the test. */
export function writeHosts(t: TestContext, lines: readonly string[]): string {
  const folder = mkdtempSync(join(tmpdir(), "postbackd-hosts-"));
  t.after(() => rmSync(folder, { recursive: true, force: true }));
  const path = join(folder, "hosts");
  writeFileSync(path, lines.map((line) => `${line}\n`).join(""));
  return path;
}

const LISTEN = `require("node:net").createServer()
  .listen({ host: process.argv[1], port: Number(process.argv[2]), backlog: 1 }, () => console.log("listening"))`;

// The kernel accepts one connection more than the backlog, then drops every SYN.
const BACKLOG_ROOM = 2;

/**
 * Makes a port on a loopback address that drops packets. Its listener is a stopped process with a full queue, so that
 * connections are neither accepted nor refused. It ends after the test.
 */
export async function startBlackHole(
  t: TestContext,
  { host, port }: { readonly host: string; readonly port: number },
): Promise<void> {
  const child = spawn(process.execPath, ["-e", LISTEN, host, String(port)], {
    stdio: ["ignore", "pipe", "inherit"],
  });
  t.after(() => child.kill("SIGKILL"));
  await once(child.stdout, "data");
  child.kill("SIGSTOP");
  for (let room = 0; room < BACKLOG_ROOM; room++) {
    const filler = connect({ host, port });
    filler.on("error", () => filler.destroy());
    t.after(() => filler.destroy());
    await once(filler, "connect");
  }
}

/** A client that is closed after the test. */
export function startClient(t: TestContext, options: { socketsMax?: number } = {}): ServiceClient {
  const client = createServiceClient({ socketsMax: options.socketsMax ?? 4 });
  t.after(() => client.close());
  return client;
}

/** A post of `{}` whose response may have 1,000 bytes. */
export function postOf(overrides: Partial<ServicePost> = {}): ServicePost {
  const { signal } = new AbortController();
  return { headers: {}, body: "{}", bytesMax: 1000, signal, ...overrides };
}

/** The response, which must be complete. */
export function answered(answer: ServiceAnswer): Extract<ServiceAnswer, { kind: "answered" }> {
  assert(answer.kind === "answered", `it was ${JSON.stringify(answer)}`);
  return answer;
}

/** Starts a TCP server on 127.0.0.1 that calls `serve` with each connection. Returns its URL. */
export async function startByteServer(
  t: TestContext,
  serve: (socket: Socket, index: number) => void,
): Promise<URL> {
  const sockets = new Set<Socket>();
  const server = createServer((socket) => {
    serve(socket, sockets.size);
    sockets.add(socket);
    socket.on("error", () => socket.destroy());
  });
  t.after(async () => {
    for (const socket of sockets) socket.destroy();
    await closeServer(server);
  });
  const port = await listen(server, { host: "127.0.0.1", port: 0 });
  return new URL(`http://127.0.0.1:${port}/`);
}
