import assert from "node:assert/strict";
import { test } from "node:test";

import { assertSentences } from "../helpers/sentences.ts";
import type { Answer } from "./answer.ts";
import { BODY_KINDS } from "./contract-body-rows.ts";
import { REQUEST_KINDS } from "./contract-rows.ts";
import { startTested, type Case, type Tested } from "./operation-cases.ts";

/** Requests that no rule of the table makes, by the id of their operation. */
const QUERIES: readonly (readonly [id: string, query: string])[] = [
  ["listTasks", "create_after=x"],
  ["searchTasks", "q=state:done"],
  ["searchTasks", "q=colour:red"],
  ["searchTasks", 'q=tag:"a'],
  ["searchTasks", "q=a b"],
  ["getTimeline", "time_zone=Europe/Atlantis"],
  ["getSeries", "from=2026-01-31T08:00:00Z&to=2026-01-31T07:00:00Z"],
  ["getSeries", "from=2020-01-01T00:00:00Z"],
  ["getSeries", "to=0000-01-01T00:00:00Z"],
  ["listHosts", "since=2020-01-01T00:00:00Z"],
];

const BODIES: readonly (readonly [id: string, body: string])[] = [
  ["postTasks", "[1]"],
  ["postTasks", `[${"1,".repeat(100)}1]`],
  ["createKey", '{"lable":"ci"}'],
  ["cancelTasks", '{"cursor":"x"}'],
  ["claimTasks", '{"types":["print","scan"]}'],
  ["heartbeatLeases", '{"leases":[],"progress":{"progress":2}}'],
];

/** The sentences of a response that an error explains: its details, and the messages of its tasks. */
function sentencesOf({ body }: Answer): readonly string[] {
  const errors = (body.errors ?? []).map(({ pointer, detail }) => {
    return `${pointer} ${detail}`.trim().replace(/line \d+, column \d+/, "line N, column N");
  });
  const refused = (body.tasks ?? []).filter((task) => task.status_code >= 40000);
  return [...errors, ...refused.map((task) => task.status_message)];
}

// Most sentences are the same for all operations.
const GENERIC: ReadonlySet<string> = new Set(["postTasks", "getTask", "createKey", "failTasks"]);

/** Each sentence once with its first cause; quoted names are ignored. */
async function collect(tested: Tested) {
  const { cases, send } = tested;
  const causes = new Map<string, readonly [cause: string, sentence: string]>();
  const note = (cause: string, answer: Answer): void => {
    const first = cause.length > 70 ? `${cause.slice(0, 70)}…` : cause;
    for (const sentence of sentencesOf(answer)) {
      const key = sentence.replaceAll(/'[^']*'/g, "''");
      if (!causes.has(key)) causes.set(key, [JSON.stringify(first).slice(1, -1), sentence]);
    }
  };
  for (const { rows, hasOwnSentences } of [...REQUEST_KINDS, ...BODY_KINDS]) {
    for (const each of cases) {
      if (hasOwnSentences !== true && !GENERIC.has(each.operation.doc.id)) continue;
      for (const { parts, cause } of await rows(each, tested)) {
        if (cause !== undefined) note(`${each.name} ${cause}`, await send(parts));
      }
    }
  }
  const caseOf = (id: string): Case => {
    return cases.find(({ operation }) => operation.doc.id === id) ?? assert.fail(id);
  };
  for (const { name, sound, status } of cases) {
    if (status >= 400) note(name, await send(sound));
  }
  for (const [id, query] of QUERIES) {
    const { name, sound } = caseOf(id);
    note(`${name} ${query}`, await send({ ...sound, query: `?${encodeURI(query)}` }));
  }
  for (const [id, body] of BODIES) {
    const { name, sound } = caseOf(id);
    note(`${name} ${body}`, await send({ ...sound, body }));
  }
  return causes.values();
}

test("each detail of a refused request is as in sentences.txt", async (t) => {
  const tested = await startTested(t);
  assertSentences(t, import.meta.dirname, await collect(tested));
});
