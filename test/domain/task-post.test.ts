import assert from "node:assert/strict";
import { describe, test } from "node:test";

import fc from "fast-check";

import { EMPTY_ALLOW_LIST } from "../../src/domain/address/allow-list.ts";
import { parseJsonBytes, type JsonObject } from "../../src/domain/json/json.ts";
import { parseTask, type TaskRules } from "../../src/domain/task/task-post.ts";
import type { NewTask, RefusedTask } from "../../src/domain/task/task.ts";
import { hasControl } from "../../src/domain/text.ts";

const NOW = Date.parse("2030-01-31T09:00:00.000Z");
const ID = "018e2f1c-0a00-7abc-8def-0123456789ab";

const RULES: TaskRules = {
  types: new Set(["echo", "hash"]),
  marketplaces: new Set(["us", "de"]),
  urlPolicy: { allow: EMPTY_ALLOW_LIST, ownNames: [], ownAddresses: [] },
};

/** Parses a task as it comes in: from the text of a body. */
function parse(body: string | JsonObject, rules = RULES) {
  const document = parseJsonBytes(
    Buffer.from(typeof body === "string" ? body : JSON.stringify(body)),
  );
  assert(document.kind === "json", "the body of the test is no JSON");
  // Elements that are no objects are refused before a task is parsed.
  return parseTask(document.value as JsonObject, { id: ID, now: NOW, rules });
}

/** The task of a body that must be accepted; a type is given unless it names one. */
function accepted(body: JsonObject): NewTask {
  const parsed = parse({ type: "echo", ...body });
  assert(parsed.kind === "accepted", `refused: ${JSON.stringify(parsed.task).slice(0, 300)}`);
  return parsed.task;
}

/** As {@link accepted}, of the text of a body. */
function acceptedText(body: string): NewTask {
  const parsed = parse(body);
  assert(parsed.kind === "accepted", `refused: ${JSON.stringify(parsed.task).slice(0, 300)}`);
  return parsed.task;
}

function refused(body: string | JsonObject, rules = RULES): RefusedTask {
  const parsed = parse(typeof body === "string" ? body : { type: "echo", ...body }, rules);
  assert(parsed.kind === "refused", "accepted");
  return parsed.task;
}

/** Says whether the refusal names the field as the invalid one, in each place where it is named. */
function assertNames(task: RefusedTask, field: string, reason: RegExp): void {
  assert.equal(task.code, 40501);
  assert(task.message.startsWith(`Invalid Field: '${field}'. `), task.message);
  assert.match(task.message, reason);
  const { message } = task;
  assert.deepEqual(JSON.parse(task.errorText), { message, detail: { field } });
}

describe("an accepted task", () => {
  test("has everything that was posted", () => {
    const task = acceptedText(`{
      "type": "hash", "tag": "order 7", "marketplace": "de", "priority": 9,
      "start_at": "2030-01-31T10:00:00+01:00", "input": {"n": 1.0},
      "postback_url": "https://Example.com/Done?x=a b#top",
      "pingback_url": "https://example.com/$id/$tag?tag=$tag"
    }`);

    const start = Date.parse("2030-01-31T09:00:00.000Z");
    assert.deepEqual(task, {
      id: ID,
      type: "hash",
      tag: "order 7",
      marketplace: "de",
      priority: 9,
      startAt: start,
      postback: { url: "https://example.com/Done?x=a%20b", host: "example.com" },
      pingback: {
        url: `https://example.com/${ID}/order%207?tag=order%207`,
        host: "example.com",
      },
      dataText:
        `{"type":"hash","tag":"order 7","marketplace":"de","priority":9,` +
        `"start_at":"2030-01-31T09:00:00.000Z",` +
        `"postback_url":"https://example.com/Done?x=a%20b",` +
        `"pingback_url":"https://example.com/$id/$tag?tag=$tag"}`,
      inputText: `{"n":1.0}`,
    });
  });

  test("has defaults for what was not posted, and shows none of them as posted", () => {
    const rules = { ...RULES, types: new Set(["echo"]) };
    for (const body of ["{}", `{"type":null,"tag":null,"priority":null,"start_at":null}`]) {
      const parsed = parse(body, rules);

      assert.deepEqual(parsed, {
        kind: "accepted",
        task: {
          ...{ id: ID, type: "echo", tag: null, marketplace: null, priority: 0, startAt: null },
          ...{ postback: null, pingback: null, dataText: "{}", inputText: null },
        },
      });
    }
  });

  test("counts null as absent in every field but the input", () => {
    const names = ["tag", "marketplace", "priority", "start_at", "postback_url", "pingback_url"];
    const task = accepted({
      ...Object.fromEntries(names.map((name) => [name, null])),
      input: null,
    });

    assert.equal(task.dataText, `{"type":"echo"}`);
    assert.equal(task.inputText, "null");
    assert.equal(accepted({}).inputText, null);
  });

  test("keeps its input as it came: digits, names, characters, order", () => {
    const inputs = [
      `{"n":[1.0,-0,1e400,12345678901234567890,0.1000]}`,
      `{"__proto__":{"x":1},"constructor":2.50}`,
      String.raw`{"\ud800":"\udead","s":"\u0000"}`,
      `{"z":1,"a":2,"input":{"input":3}}`,
      `"text"`,
      `false`,
      `${"[".repeat(60)}${"]".repeat(60)}`,
    ];

    for (const input of inputs) {
      const task = acceptedText(`{"type":"echo","input":${input}}`);
      assert.equal(task.inputText, input);
      assert.equal(task.dataText, `{"type":"echo"}`);
    }
  });

  test("keeps a pingback's placeholders literal where they are shown, and none where it is sent", () => {
    const cases = [
      ["https://example.com/$id", null, `/${ID}`, "/$id"],
      ["https://example.com/?t=$tag&i=$id", "a&b/\u00fc!", `/?t=a%26b%2F%C3%BC%21&i=${ID}`, null],
      ["https://example.com/?t=$tag", null, "/?t=", "/?t=$tag"],
      ["https://example.com/%24id", "x", "/%24id", "/%24id"],
      ["https://example.com/$tag", "$id", "/%24id", "/$tag"],
    ] as const;

    for (const [url, tag, sent, shown] of cases) {
      const task = accepted({ pingback_url: url, tag });
      assert.equal(task.pingback?.url, `https://example.com${sent}`, url);
      const data: unknown = JSON.parse(task.dataText);
      const expected = { type: "echo", ...(tag === null ? {} : { tag }) };
      const pingback = `https://example.com${shown ?? "/?t=$tag&i=$id"}`;
      assert.deepEqual(data, { ...expected, pingback_url: pingback });
    }
  });

  test("is sent a postback at the URL as it stands, dollars and all", () => {
    const task = accepted({ postback_url: "https://example.com/$id?$tag" });

    assert.equal(task.postback?.url, "https://example.com/$id?$tag");
  });

  test("has the host of its webhook as the lane, an address without its brackets", () => {
    const hosts = [
      ["https://EXAMPLE.com:8443/x", "example.com"],
      ["https://b\u00fccher.example/", "xn--bcher-kva.example"],
      ["http://93.184.216.34/", "93.184.216.34"],
      ["http://[2606:2800:220:1:248:1893:25c8:1946]/", "2606:2800:220:1:248:1893:25c8:1946"],
    ] as const;

    for (const [url, host] of hosts)
      assert.equal(accepted({ postback_url: url }).postback?.host, host);
  });
});

describe("type", () => {
  test("has to be named where there are several", () => {
    for (const body of ["{}", `{"type":null}`]) {
      assertNames(refused(body), "type", /Name the type of task: echo, hash\./);
    }
  });

  test("has to be one that is configured", () => {
    for (const type of [
      "Echo",
      "",
      " echo",
      "__proto__",
      "constructor",
      1,
      true,
      [],
      {},
      ["echo"],
    ]) {
      assertNames(refused({ type }), "type", /It must be one of: echo, hash\./);
    }
  });

  test("may be named where there is only one, and nothing else may", () => {
    const rules = { ...RULES, types: new Set(["echo"]) };

    assert.equal(parse({ type: "echo" }, rules).kind, "accepted");
    assertNames(refused({ type: "hash" }, rules), "type", /one of: echo\./);
  });
});

describe("tag", () => {
  const good = ["", "a", "a".repeat(255), "\u{1F600}".repeat(255), "\u2028 \u202e\u00a0", "$id"];
  for (const tag of good) {
    test(`may be ${JSON.stringify(tag).slice(0, 30)} (${[...tag].length} code points)`, () => {
      assert.equal(accepted({ tag }).tag, tag);
      assert.deepEqual(JSON.parse(accepted({ tag }).dataText), { type: "echo", tag });
    });
  }

  const bad = [
    ...[
      "a".repeat(256),
      "\u{1F600}".repeat(256),
      "a".repeat(1_000_000),
      "a\nb",
      "\u0000",
      "\u007f",
    ],
    ...["\u0085", "\ud800", "a\udc00", 1, true, {}, [], ["a"]],
  ];
  for (const tag of bad) {
    test(`may not be ${JSON.stringify(tag).slice(0, 30)}`, () => {
      assertNames(refused({ tag }), "tag", /at most 255 characters/);
    });
  }
});

describe("marketplace", () => {
  test("has to be a configured code", () => {
    assert.equal(accepted({ marketplace: "us" }).marketplace, "us");
    for (const marketplace of ["US", "", "fr", "toString", 1, {}, ["us"]]) {
      assertNames(refused({ marketplace }), "marketplace", /\/v1\/appendix\/marketplaces/);
    }
  });
});

describe("priority", () => {
  const good = { "0": 0, "9": 9, "5.0": 5, "1e0": 1, "0.9e1": 9, "-0": 0, "3.000000000000000": 3 };
  for (const [text, priority] of Object.entries(good)) {
    test(`may be ${text}, and is shown as it came`, () => {
      const task = acceptedText(`{"type":"echo","priority":${text}}`);

      assert(Object.is(task.priority, priority), String(task.priority));
      assert.equal(task.dataText, `{"type":"echo","priority":${text}}`);
    });
  }

  const bad = ["10", "-1", "1.5", "1e400", "9.0000000001", `"5"`, "true", "[]", "{}", "[5]"];
  for (const text of bad) {
    test(`may not be ${text}`, () => {
      const task = refused(`{"type":"echo","priority":${text}}`);
      assertNames(task, "priority", /It must be a whole number from 0 to 9\./);
    });
  }
});

describe("start_at", () => {
  const good = {
    "2030-01-31T09:00:00Z": "2030-01-31T09:00:00.000Z",
    "2030-01-31t09:00:00z": "2030-01-31T09:00:00.000Z",
    "2030-01-31T09:00:00.1Z": "2030-01-31T09:00:00.100Z",
    "2030-01-31T09:00:00.123456789Z": "2030-01-31T09:00:00.123Z",
    "2030-01-31T09:00:00+05:30": "2030-01-31T03:30:00.000Z",
    "2030-01-31T09:00:00-23:59": "2030-02-01T08:59:00.000Z",
    "2028-02-29T00:00:00Z": "2028-02-29T00:00:00.000Z",
    "2000-01-01T00:00:00Z": "2000-01-01T00:00:00.000Z",
    // 366 days after the post, to the millisecond.
    "2031-02-01T09:00:00.000Z": "2031-02-01T09:00:00.000Z",
    "2031-02-01T10:00:00.000999+01:00": "2031-02-01T09:00:00.000Z",
  };
  for (const [text, utc] of Object.entries(good)) {
    test(`may be ${text}, and is shown in UTC with milliseconds`, () => {
      const task = accepted({ start_at: text });

      assert.equal(task.startAt, Date.parse(utc));
      assert.equal(task.dataText, `{"type":"echo","start_at":"${utc}"}`);
    });
  }

  const bad = [
    ...["", "2030-01-31", "2030-01-31T09:00:00", "2030-01-31 09:00:00Z", "2030-01-31T09:00Z"],
    ...["2030-02-30T00:00:00Z", "2029-02-29T00:00:00Z", "2030-13-01T00:00:00Z"],
    ...["2030-00-01T00:00:00Z", "2030-01-00T00:00:00Z", "2030-01-32T00:00:00Z"],
    ...["2030-01-31T24:00:00Z", "2030-01-31T09:60:00Z", "2030-01-31T09:00:60Z"],
    ...["2030-01-31T09:00:00+24:00", "2030-01-31T09:00:00+0530", "2030-01-31T09:00:00.Z"],
    ...["2030-01-31T09:00:00.1234567890Z", "02030-01-31T09:00:00Z", "+002030-01-31T09:00:00Z"],
    ...["2030-01-31T09:00:00Z\n", " 2030-01-31T09:00:00Z", "now", "9999-12-31T23:59:59-01:00"],
    ...[1893456000000, true, {}, []],
  ];
  for (const text of bad) {
    test(`may not be ${JSON.stringify(text)}`, () => {
      assertNames(refused({ start_at: text }), "start_at", /RFC 3339 time, such as 2030-/);
    });
  }

  for (const text of ["2031-02-01T09:00:00.001Z", "9999-12-31T23:59:59.999Z"]) {
    test(`may not be more than 366 days ahead: ${text}`, () => {
      const latest =
        /It may lie at most 366 days ahead: 2031-02-01T09:00:00\.000Z is the latest now\.$/;
      assertNames(refused({ start_at: text }), "start_at", latest);
    });
  }

  // With an offset the first year begins before it: RFC 3339 has no year below 0000.
  test("is shown as RFC 3339 wherever it is accepted", () => {
    for (const text of ["0000-01-01T00:00:00Z", "0000-01-01T00:30:00+01:00"]) {
      const parsed = parse({ type: "echo", start_at: text });
      if (parsed.kind === "refused") continue;
      const data: unknown = JSON.parse(parsed.task.dataText);
      assert.match(JSON.stringify(data), /"start_at":"\d{4}-\d{2}-\d{2}T[\d:.]{12}Z"/, text);
    }
  });
});

describe("webhook URLs", () => {
  for (const field of ["postback_url", "pingback_url"]) {
    test(`have to be text that keeps the URL rules: ${field}`, () => {
      for (const url of [1, true, {}, [], ["https://example.com/"]]) {
        assertNames(refused({ [field]: url }), field, /It must be a string\./);
      }
      assertNames(refused({ [field]: "ftp://example.com/" }), field, /http:\/\/ or https:\/\//);
      assertNames(refused({ [field]: "http://127.0.0.1/" }), field, /webhooks\.allow/);
      assertNames(refused({ [field]: "http://localhost/" }), field, /webhooks\.allow/);
      assertNames(refused({ [field]: "" }), field, /./);
    });

    test(`are shown in encoded form also when they are refused: ${field}`, () => {
      const task = refused({ [field]: "http://127.1/a b" });

      assert.equal(task.dataText, `{"type":"echo","${field}":"http://127.0.0.1/a%20b"}`);
    });

    test(`are percent-encoded when they have no normal form: ${field}`, () => {
      const cases = [
        ["http://exa mple.com/ü", "http://exa%20mple.com/%C3%BC"],
        ["ftp://bücher/", "ftp://b%C3%BCcher/"],
        ["no url\n", "no%20url%0A"],
        [" https://a.example/%zz?q=[1]#x\u0000", "%20https://a.example/%zz?q=[1]#x%00"],
        ["java\tscript:\u0085\u007f\u{1f600}", "java%09script:%C2%85%7F%F0%9F%98%80"],
        ["http://a\ud800.example/", "http://a%EF%BF%BD.example/"],
        [`ftp://${"é".repeat(5000)}`, `ftp://${"%C3%A9".repeat(5000)}`],
        ["", ""],
      ];
      for (const [posted = "", shown] of cases) {
        const task = refused({ [field]: posted });
        assert.deepEqual(JSON.parse(task.dataText), { type: "echo", [field]: shown });
      }
    });
  }

  test("are judged as they will be requested: the tag put in", () => {
    const url = "http://$tag/";

    assertNames(refused({ pingback_url: url, tag: "127.0.0.1" }), "pingback_url", /127\.0\.0\.1/);
    assert.equal(accepted({ pingback_url: url, tag: "example.com" }).pingback?.host, "example.com");
  });
});

describe("a refused task", () => {
  test("shows each URL in encoded form, also if another field is refused", () => {
    const task = refused({
      postback_url: "ftp://bücher/",
      pingback_url: "https://Bücher.example/ä?$tag",
      colour: 1,
    });

    assert.equal(task.code, 40506);
    assert.deepEqual(JSON.parse(task.dataText), {
      type: "echo",
      postback_url: "ftp://b%C3%BCcher/",
      pingback_url: "https://xn--bcher-kva.example/%C3%A4?$tag",
      colour: 1,
    });
  });

  test("names an unknown field, and shows it as it was posted", () => {
    const task = refused(`{"type":"echo","colour":{"r":1.0},"tag":"t","input":[2.50]}`);

    const message = "Unknown Field: 'colour'.";
    assert.deepEqual(task, {
      id: ID,
      type: "echo",
      tag: "t",
      code: 40506,
      message,
      errorText: JSON.stringify({ message, detail: { field: "colour" } }),
      dataText: `{"type":"echo","colour":{"r":1.0},"tag":"t"}`,
      inputText: "[2.50]",
    });
  });

  test("names an unknown field before anything that is wrong with a known one", () => {
    const task = refused({ priority: 99, colour: null });

    assert.equal(task.code, 40506);
    assert.equal(task.dataText, `{"type":"echo","priority":99,"colour":null}`);
  });

  const hostile = [
    ...["__proto__", "constructor", "hasOwnProperty", "toString", "", " ", "Type", "types", "$&"],
    ...["REASON", "NAME", "'", `"`, "\\", "\u0000", "\u{1F600}", "a\nb", "postback_url "],
  ];
  for (const name of hostile) {
    test(`names a hostile field, but for control characters: ${JSON.stringify(name)}`, () => {
      const shown = name.replaceAll(/[\0\n]/g, "\ufffd");
      const task = refused(`{"type":"echo",${JSON.stringify(name)}:1}`);

      assert.equal(task.code, 40506);
      assert.equal(task.message, `Unknown Field: '${shown}'.`);
      const { message, detail } = JSON.parse(task.errorText);
      assert.deepEqual([message, detail.field], [task.message, shown]);
      assert.deepEqual(task.dataText, `{"type":"echo",${JSON.stringify(name)}:1}`);
    });
  }

  test("names the field that an unknown one is most like, if there is one", () => {
    const detailOf = (name: string): unknown => JSON.parse(refused({ [name]: 1 }).errorText).detail;

    assert.deepEqual(detailOf("postback"), { field: "postback", nearest: "postback_url" });
    assert.deepEqual(detailOf("postbackUrl"), { field: "postbackUrl", nearest: "postback_url" });
    assert.deepEqual(detailOf("prioirty"), { field: "prioirty", nearest: "priority" });
    assert.deepEqual(detailOf("colour"), { field: "colour" });
    assert.deepEqual(detailOf("type".repeat(20)), { field: `${"type".repeat(16)}…` });
  });

  test("cuts the name of a field where no name is that long", () => {
    const name = "x".repeat(1_000_000);
    const task = refused(`{"type":"echo","${name}":1}`);

    assert.equal(task.message, `Unknown Field: '${"x".repeat(64)}…'.`);
    assert(task.errorText.length < 300);
    assert.equal(refused({ ["y".repeat(64)]: 1 }).message, `Unknown Field: '${"y".repeat(64)}'.`);
  });

  // SQLite stores UTF-8: what has no UTF-8 would read differently in task_get than in the answer to task_post.
  test("has a message of plain UTF-8 for any name of the field", () => {
    const names = [
      "\ud800",
      "a\udc00b",
      "a\0b\n\u009b",
      `${"x".repeat(63)}\u{1F600}`,
      `${"x".repeat(64)}\ud800`,
    ];

    for (const name of names) {
      const task = refused({ [name]: 1 });
      assert(task.message.isWellFormed(), JSON.stringify(task.message));
      assert(!hasControl(task.message), JSON.stringify(task.message));
      const { message } = JSON.parse(task.errorText) as { readonly message: string };
      assert.equal(message, task.message);
    }
  });

  test("keeps type and tag for lists as far as they are valid", () => {
    const broken = { colour: 1 };

    assert.equal(refused({ ...broken, type: "none" }).type, "none");
    assert.equal(refused({ ...broken, type: "x".repeat(1000) }).type, `${"x".repeat(64)}…`);
    assert.equal(
      refused({ type: "\ud800 \0\u001b[2J\u009b\x7F" }).type,
      "\ufffd \ufffd\ufffd[2J\ufffd\ufffd",
    );
    for (const type of [1, null, {}]) assert.equal(refused({ ...broken, type }).type, null);
    assert.equal(refused({ ...broken, tag: "t" }).tag, "t");
    for (const tag of [1, null, "a\nb", "a".repeat(256)]) {
      assert.equal(refused({ ...broken, tag }).tag, null);
    }
  });

  test("is shown with its times in UTC where they are times", () => {
    const utc = refused({ colour: 1, start_at: "2030-01-31T09:00:00+01:00" });
    const text = refused({ start_at: "soon" });

    assert.equal(utc.dataText, `{"type":"echo","colour":1,"start_at":"2030-01-31T08:00:00.000Z"}`);
    assert.equal(text.dataText, `{"type":"echo","start_at":"soon"}`);
  });
});

test("parses every object there is without throwing, into JSON and well-formed text", () => {
  const unit = fc.integer({ min: 0, max: 0xffff }).map((code) => String.fromCharCode(code));
  const text = fc.array(unit, { maxLength: 8 }).map((units) => units.join(""));
  const known = ["type", "tag", "marketplace", "priority", "start_at", "postback_url", "input"];
  const name = fc.oneof(fc.constantFrom(...known, "pingback_url", "__proto__"), text);
  const url = text.map((tail) => `https://example.com/$id${tail}`);
  const value = fc.oneof(
    ...[fc.jsonValue(), text, url, fc.constantFrom("echo", "us", 0, 5, null)],
    fc.constantFrom("2030-01-31T09:00:00Z", "0000-01-01T00:00:00+23:59", 1e300),
  );
  const members = fc.array(fc.tuple(name, value), { maxLength: 6 });
  fc.assert(
    fc.property(members, (entries) => {
      const body = entries.map(([key, each]) => `${JSON.stringify(key)}:${JSON.stringify(each)}`);
      const { kind, task } = parse(`{${body.join(",")}}`);

      const texts = [task.dataText, task.inputText ?? "null", task.tag ?? "", task.type ?? ""];
      if (kind === "refused") texts.push(task.message, task.errorText);
      for (const each of texts) assert(each.isWellFormed(), each);
      assert.equal(typeof JSON.parse(task.dataText), "object");
      JSON.parse(task.inputText ?? "null");
    }),
    { numRuns: 500 },
  );
});
