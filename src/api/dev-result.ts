import { integerBetween, plainLines, plainText, TRUTH } from "../domain/rule.ts";
import { TAG } from "../domain/task/task.ts";
import { envelope } from "./envelope.ts";
import { optional, withDefault, type InputsFor } from "./input.ts";
import * as s from "./schema.ts";
import { Id } from "./value.ts";

/** Results that are ordered instead of computed (contract §9). */

const DAY_MS = 24 * 3600 * 1000;
const MESSAGE_LENGTH_MAX = 1000;

/** The parts of a rule beside its result, which is any JSON. */
export const RESULT_RULE = {
  type: optional(plainText(64), "Of the tasks that it is for; of all unless given."),
  tag: optional(TAG, "Of the tasks that it is for; with any, or none, unless given."),
  error: optional(plainLines(MESSAGE_LENGTH_MAX), "The run fails with this message."),
  after_ms: withDefault(
    integerBetween(0, 365 * DAY_MS),
    0,
    "How long the run takes, by the daemon's clock.",
  ),
  hold: withDefault(TRUTH, false, "The run goes on until it is finished by a request."),
};

/** Ends a run that is held, in the place of a result. */
export const RUN_END = { error: RESULT_RULE.error };

const Result = s.anything("Any JSON; the run ends with it, digit for digit.");

interface WrittenEnd {
  readonly result?: unknown;
  readonly error?: string;
}

interface WrittenRule extends WrittenEnd {
  readonly type?: string;
  readonly tag?: string;
  readonly after_ms?: number;
  readonly hold?: boolean;
}

function written<Value>(
  name: string,
  inputs: Readonly<Record<string, s.JsonSchema>>,
): s.Schema<Value> {
  const properties = { ...inputs, result: Result };
  return s.named(name, s.closed<Value>({ type: "object", properties }));
}

const Rule = written<WrittenRule>("ResultRule", shown(RESULT_RULE));
const End = written<WrittenEnd>("RunEnd", shown(RUN_END));

function shown(
  inputs: Readonly<Record<string, { readonly schema: s.JsonSchema; readonly description: string }>>,
) {
  const entries = Object.entries(inputs);
  return Object.fromEntries(
    entries.map(([name, { schema, description }]) => [name, { ...schema, description }]),
  );
}

export const DEV_RESULT_ANSWERS = {
  "PUT /dev/results": envelope({ rules_count: s.count() }),
  "POST /dev/tasks/:id/finish": envelope({ id: Id }),
};

export const DEV_RESULT_INPUTS = {
  "PUT /dev/results": { json: () => s.list(Rule, "The first that fits a task counts.") },
  "POST /dev/tasks/:id/finish": { json: () => End },
} satisfies InputsFor<typeof DEV_RESULT_ANSWERS>;
