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

/** Parses a task from the text of a body. */
function parse(body: string | JsonObject, rules = RULES) {
  const document = parseJsonBytes(
    Buffer.from(typeof body === "string" ? body : JSON.stringify(body)),
  );
  assert(document.kind === "json", "the body of the test is not JSON");
  return parseTask(document.value as JsonObject, { id: ID, now: NOW, rules });
}

function accepted(body: JsonObject): NewTask {
  const parsed = parse({ type: "echo", ...body });
  assert(parsed.kind === "accepted", `refused: ${JSON.stringify(parsed.task).slice(0, 300)}`);
  return parsed.task;
}

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

/** Asserts 40501 for the field, in the message and in the error. */
function assertNames(task: RefusedTask, field: string, reason = /./): void {
  assert.equal(task.code, 40501);
  assert(task.message.startsWith(`Invalid Field: '${field}'. `), task.message);
  assert.match(task.message, reason);
  const { message } = task;
  assert.deepEqual(JSON.parse(task.errorText), { message, detail: { field } });
}

describe("an accepted task", () => {
  test("has all posted fields", () => {
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

  test("has defaults for absent fields, and its data contains no defaults", () => {
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

  test("treats null as absent in every field except the input", () => {
    const names = ["tag", "marketplace", "priority", "start_at", "postback_url", "pingback_url"];
    const task = accepted({
      ...Object.fromEntries(names.map((name) => [name, null])),
      input: null,
    });

    assert.equal(task.dataText, `{"type":"echo"}`);
    assert.equal(task.inputText, "null");
    assert.equal(accepted({}).inputText, null);
  });

  test("keeps the digits, names, characters and order of its input", () => {
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

  test("shows the placeholders of a pingback URL and sends their values", () => {
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

  test("keeps placeholders in a postback URL", () => {
    const task = accepted({ postback_url: "https://example.com/$id?$tag" });

    assert.equal(task.postback?.url, "https://example.com/$id?$tag");
  });

  test("has the host of its webhook, without the brackets of an address", () => {
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
  test("is one of the configured types", () => {
    for (const body of ["{}", `{"type":null}`]) assertNames(refused(body), "type", /echo, hash/);
    for (const type of ["Echo", "", " echo", "__proto__", "constructor", 1, true, {}, ["echo"]]) {
      assertNames(refused({ type }), "type", /echo, hash/);
    }
  });

  test("may be absent if only one type is configured", () => {
    const rules = { ...RULES, types: new Set(["echo"]) };

    assert.equal(parse({ type: "echo" }, rules).kind, "accepted");
    assertNames(refused({ type: "hash" }, rules), "type", /echo/);
  });
});

test("a tag is text of at most 255 code points without control characters", () => {
  for (const tag of [
    "",
    "a",
    "a".repeat(255),
    "\u{1F600}".repeat(255),
    "\u2028 \u202e\u00a0",
    "$id",
  ]) {
    assert.equal(accepted({ tag }).tag, tag);
    assert.deepEqual(JSON.parse(accepted({ tag }).dataText), { type: "echo", tag });
  }
  const bad = [
    ...["a".repeat(256), "\u{1F600}".repeat(256), "a".repeat(1_000_000), "a\nb", "\0", "\u007f"],
    ...["\u0085", "\ud800", "a\udc00", 1, true, {}, [], ["a"]],
  ];
  for (const tag of bad) assertNames(refused({ tag }), "tag", /255/);
});

test("a marketplace is a configured code", () => {
  assert.equal(accepted({ marketplace: "us" }).marketplace, "us");
  for (const marketplace of ["US", "", "fr", "toString", 1, {}, ["us"]]) {
    assertNames(refused({ marketplace }), "marketplace", /\/v1\/appendix\/marketplaces/);
  }
});

test("a priority is a whole number from 0 to 9 in any notation", () => {
  const good = { "0": 0, "9": 9, "5.0": 5, "1e0": 1, "0.9e1": 9, "-0": 0, "3.000000000000000": 3 };
  for (const [text, priority] of Object.entries(good)) {
    const task = acceptedText(`{"type":"echo","priority":${text}}`);

    assert(Object.is(task.priority, priority), String(task.priority));
    assert.equal(task.dataText, `{"type":"echo","priority":${text}}`);
  }
  for (const text of ["10", "-1", "1.5", "1e400", "9.0000000001", `"5"`, "true", "[5]", "{}"]) {
    assertNames(refused(`{"type":"echo","priority":${text}}`), "priority", /from 0 to 9/);
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
  test("is an RFC 3339 time, stored in UTC with milliseconds", () => {
    for (const [text, utc] of Object.entries(good)) {
      const task = accepted({ start_at: text });

      assert.equal(task.startAt, Date.parse(utc));
      assert.equal(task.dataText, `{"type":"echo","start_at":"${utc}"}`);
    }
  });

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
  test("is refused in another form, and more than 366 days ahead", () => {
    for (const text of bad) assertNames(refused({ start_at: text }), "start_at", /RFC 3339/);
    for (const text of ["2031-02-01T09:00:00.001Z", "9999-12-31T23:59:59.999Z"]) {
      assertNames(refused({ start_at: text }), "start_at", /2031-02-01T09:00:00\.000Z/);
    }
  });

  // RFC 3339 has no year below 0000, and an offset could lead there.
  test("is written as RFC 3339 also in year 0", () => {
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
    test(`follow the URL rules in ${field}`, () => {
      for (const url of [1, true, {}, [], ["https://example.com/"], "", "ftp://example.com/"]) {
        assertNames(refused({ [field]: url }), field);
      }
      assertNames(refused({ [field]: "http://127.0.0.1/" }), field, /webhooks\.allow/);
    });

    test(`are percent-encoded in the data of a refused task: ${field}`, () => {
      const cases = [
        ["http://127.1/a b", "http://127.0.0.1/a%20b"],
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

  test("are judged with the tag substituted", () => {
    const url = "http://$tag/";

    assertNames(refused({ pingback_url: url, tag: "127.0.0.1" }), "pingback_url", /127\.0\.0\.1/);
    assert.equal(accepted({ pingback_url: url, tag: "example.com" }).pingback?.host, "example.com");
  });
});

describe("a refused task", () => {
  test("has encoded URLs, also if another field is refused", () => {
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

  test("names an unknown field and keeps its value", () => {
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

  test("names an unknown field before an invalid one", () => {
    const task = refused({ priority: 99, colour: null });

    assert.equal(task.code, 40506);
    assert.equal(task.dataText, `{"type":"echo","priority":99,"colour":null}`);
  });

  const hostile = [
    ...["__proto__", "constructor", "hasOwnProperty", "toString", "", " ", "Type", "types", "$&"],
    ...["REASON", "NAME", "'", `"`, "\\", "\u0000", "\u{1F600}", "a\nb", "postback_url "],
  ];
  test("contains the name of a hostile field without its control characters", () => {
    for (const name of hostile) {
      const shown = name.replaceAll(/[\0\n]/g, "\ufffd");
      const task = refused(`{"type":"echo",${JSON.stringify(name)}:1}`);

      assert.equal(task.code, 40506);
      assert.equal(task.message, `Unknown Field: '${shown}'.`);
      const { message, detail } = JSON.parse(task.errorText);
      assert.deepEqual([message, detail.field], [task.message, shown]);
      assert.deepEqual(task.dataText, `{"type":"echo",${JSON.stringify(name)}:1}`);
    }
  });

  test("suggests the nearest known field", () => {
    const detailOf = (name: string): unknown => JSON.parse(refused({ [name]: 1 }).errorText).detail;

    assert.deepEqual(detailOf("postback"), { field: "postback", nearest: "postback_url" });
    assert.deepEqual(detailOf("postbackUrl"), { field: "postbackUrl", nearest: "postback_url" });
    assert.deepEqual(detailOf("prioirty"), { field: "prioirty", nearest: "priority" });
    assert.deepEqual(detailOf("colour"), { field: "colour" });
    assert.deepEqual(detailOf("type".repeat(20)), { field: `${"type".repeat(16)}…` });
  });

  test("truncates a long field name", () => {
    const name = "x".repeat(1_000_000);
    const task = refused(`{"type":"echo","${name}":1}`);

    assert.equal(task.message, `Unknown Field: '${"x".repeat(64)}…'.`);
    assert(task.errorText.length < 300);
    assert.equal(refused({ ["y".repeat(64)]: 1 }).message, `Unknown Field: '${"y".repeat(64)}'.`);
  });

  // SQLite stores UTF-8: other text would differ between task_get and task_post.
  test("has a message of valid UTF-8 for any field name", () => {
    const names = ["\ud800", "a\udc00b", "a\0b\n\u009b", `${"x".repeat(63)}\u{1F600}`];

    for (const name of [...names, `${"x".repeat(64)}\ud800`]) {
      const task = refused({ [name]: 1 });
      assert(task.message.isWellFormed(), JSON.stringify(task.message));
      assert(!hasControl(task.message), JSON.stringify(task.message));
      const { message } = JSON.parse(task.errorText) as { readonly message: string };
      assert.equal(message, task.message);
    }
  });

  test("keeps a valid type and tag", () => {
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

  test("has valid times in UTC", () => {
    const utc = refused({ colour: 1, start_at: "2030-01-31T09:00:00+01:00" });
    const text = refused({ start_at: "soon" });

    assert.equal(utc.dataText, `{"type":"echo","colour":1,"start_at":"2030-01-31T08:00:00.000Z"}`);
    assert.equal(text.dataText, `{"type":"echo","start_at":"soon"}`);
  });
});

test("any object is parsed to JSON and well-formed text", () => {
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
