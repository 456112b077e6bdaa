import assert from "node:assert/strict";
import { test } from "node:test";

import type { FieldsOf } from "../../src/api/operations.ts";
import { MINUTE_MS } from "../../src/domain/clock/duration.ts";
import { STATUS_TABLE } from "../../src/domain/status.ts";
import { startTestDaemon, type TestDaemon } from "../helpers/daemon.ts";
import { headerOf } from "../helpers/raw-http.ts";
import { startReceiver } from "../helpers/receiver.ts";
import { fieldsOf, startAt9 } from "./account.ts";
import { ask } from "./answer.ts";

const MARKETPLACES = "/v1/appendix/marketplaces";
const STATUS = "/v1/appendix/status";
const STATUS_CODES = "/v1/appendix/status_codes";

const FILE = `
[[marketplaces]]
code = "us"
name = "United States"
currency = "USD"
active = true
opened = 2020-01-31
fees = [1.5, 2]
address = { city = "Seattle", "zip code" = "98101" }

[[marketplaces]]
code = "de"
name = "Deutschland 𝒻 \\"<b>\\""
__proto__ = "an ordinary key"
`;

/** The words for api, runners, webhooks and all of them. */
async function wordsOf({ url }: Pick<TestDaemon, "url">): Promise<string> {
  const answer = await ask(url, { target: STATUS });
  assert.doesNotMatch(answer.response.body.toString().replace('"status_code":20000', ""), /\d/);
  const { status, components } = fieldsOf<FieldsOf<"GET /v1/appendix/status">>(answer);
  return [components.api, components.runners, components.webhooks, status].join(" ");
}

const ALL_FINE = "operational operational operational operational";

test("marketplaces are the tables of the file in their order, with all their keys", async (t) => {
  const { daemon } = await startAt9(t, FILE);
  const { response } = await ask(daemon.url, { target: MARKETPLACES });

  const us =
    '{"code":"us","name":"United States","currency":"USD","active":true,"opened":"2020-01-31",' +
    '"fees":[1.5,2],"address":{"city":"Seattle","zip code":"98101"}}';
  const de = '{"code":"de","name":"Deutschland 𝒻 \\"<b>\\"","__proto__":"an ordinary key"}';
  const expected = `{"status_code":20000,"status_message":"Ok.","marketplaces":[${us},${de}]}`;
  assert.equal(response.body.toString(), expected);
});

test("types begin with those that accept any input", async (t) => {
  const toml = '[types.print]\nrunner = "worker"\n[types.same]\nrunner = "echo"\n';
  const daemon = await startTestDaemon(t, { toml });

  const types = await daemon.call("/v1/appendix/types");

  assert.deepEqual(((await types.json()) as { types: unknown }).types, ["same", "print"]);
});

test("status_codes are the rows of the table of codes", async (t) => {
  const { daemon } = await startAt9(t);
  const answer = await ask(daemon.url, { target: STATUS_CODES });

  const rows = Object.entries(STATUS_TABLE).map(([code, { message, http }]) => {
    return { code: Number(code), message, http };
  });
  const { status_codes } = fieldsOf<{ status_codes: unknown }>(answer);
  assert.deepEqual(status_codes, rows);
});

test("each reference has a time to live, and a tag that changes with its content alone", async (t) => {
  const tagsOf = async (toml: string) => {
    const { daemon } = await startAt9(t, toml);
    const tags: (string | null)[] = [];
    for (const [target, control] of [
      [MARKETPLACES, "public, max-age=300"],
      [STATUS_CODES, "public, max-age=3600"],
      [STATUS, "public, max-age=1"],
    ] as const) {
      const { response } = await ask(daemon.url, { target });
      assert.equal(headerOf(response, "cache-control"), control);
      const tag = headerOf(response, "etag") ?? "";
      const known = await ask(daemon.url, { target, headers: [`If-None-Match: ${tag}`] });
      assert.equal(known.response.status, 304);
      assert.equal(headerOf(known.response, "cache-control"), control);
      tags.push(tag);
    }
    return tags;
  };
  const [list, ...others] = await tagsOf(FILE);
  assert.deepEqual(await tagsOf(FILE), [list, ...others]);
  const [changed, ...same] = await tagsOf(FILE.replace("USD", "EUR"));
  assert.notEqual(changed, list);
  assert.deepEqual(same, others);
});

/** A type that succeeds, one that fails, and one whose only run waits for ever. */
const COMMANDS = `
[types.echo]
runner = "echo"
[types.fail]
command = ["false"]
concurrency = 8
[types.hold]
command = ["sleep", "1000"]
timeout = "24h"
concurrency = 1
`;

test("runners are down while every run fails, degraded while half do, and operational minutes later", async (t) => {
  const { daemon, clock } = await startAt9(t, COMMANDS);
  for (const [type, words] of [
    ["fail", "operational down operational down"],
    ["echo", "operational degraded operational degraded"],
  ] as const) {
    await daemon.post(Array.from({ length: 20 }, () => ({ type })));
    await daemon.daemon.idle();
    clock.advance(1000);
    assert.equal(await wordsOf(daemon), words);
  }

  clock.advance(5 * MINUTE_MS);
  assert.equal(await wordsOf(daemon), ALL_FINE);
});

test("webhooks are down while all five receivers fail, degraded while three do, and not by one alone", async (t) => {
  // A receiver is a host.
  const hosts = ["127.0.0.2", "127.0.0.3", "127.0.0.4", "127.0.0.5", "127.0.0.6"];
  const { daemon, clock } = await startAt9(t, `[webhooks]\nallow = ["127.0.0.0/8"]\n`);
  const broken = { reply: { kind: "status", status: 500 } } as const;
  const receivers = await Promise.all(hosts.map((host) => startReceiver(t, { ...broken, host })));
  const send = async (to: readonly (typeof receivers)[number][]) => {
    await daemon.post(to.map((each) => ({ postback_url: each.url("/x") })));
    await daemon.daemon.idle();
    clock.advance(1000);
    return wordsOf(daemon);
  };
  const [first] = receivers;
  assert.ok(first !== undefined);
  assert.equal(await send(Array.from({ length: 30 }, () => first)), ALL_FINE);
  assert.equal(await send(receivers), "operational operational down down");

  for (const each of receivers.slice(0, 2)) each.answer({ kind: "status", status: 204 });
  assert.equal(await send(receivers), "operational operational degraded degraded");
});
