import assert from "node:assert/strict";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { TestContext } from "node:test";

import { Resolver } from "../../src/deliver/resolver.ts";
import { Sender } from "../../src/deliver/send.ts";
import { parseAllowList } from "../../src/domain/address/allow-list.ts";
import { systemClock } from "../../src/domain/clock/clock.ts";
import type { Clock } from "../../src/domain/clock/clock.ts";
import type { SendRequest } from "../../src/domain/webhook/webhook-request.ts";
import { judgeWebhookUrl } from "../../src/domain/webhook/webhook-url.ts";
import type { UrlPolicy, WebhookTarget } from "../../src/domain/webhook/webhook-url.ts";

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
