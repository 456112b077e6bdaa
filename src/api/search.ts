import { LOGIN } from "../domain/account/account.ts";
import { HOST } from "../domain/address/host-name.ts";
import { INSTANT } from "../domain/clock/time.ts";
import { integerBetween, oneOf } from "../domain/rule.ts";
import { TASK_STATES } from "../domain/task/task.ts";
import {
  ATTEMPTS_COUNTED_MAX,
  ATTEMPT_OUTCOMES,
  DELIVERY_KINDS,
  DELIVERY_STATES,
  ENDED_STATES,
} from "../domain/webhook/delivery.ts";
import { DeliveryKind, DeliveryState, IsPaused } from "./delivery.ts";
import { Id, NextCursor, Time, envelope } from "./envelope.ts";
import {
  CURSOR,
  type InputValues,
  type InputsFor,
  type WrittenInputs,
  optional,
  required,
  textUpTo,
  wholeNumber,
  withDefault,
} from "./input.ts";
import * as s from "./schema.ts";
import { Progress } from "./task.ts";

/** The cursor with which a search or a count continues, next to its results. */
export const ExaminedUntil = s.nullable(
  Time,
  "The oldest time that was searched; null if nothing was searched.",
);

const FoundDelivery = s.object({
  kind: DeliveryKind,
  host: s.text(),
  state: s.word(["waiting", ...DELIVERY_STATES]),
  attempts: s.count(`With the attempt in flight; ${ATTEMPTS_COUNTED_MAX} are counted at most.`),
  last: s.nullable(
    s.object({
      outcome: s.word(ATTEMPT_OUTCOMES),
      http_status: s.nullable(s.integer()),
      error: s.nullable(s.text()),
      ended_at: Time,
    }),
  ),
  next_attempt_at: s.nullable(Time),
  is_paused: IsPaused,
});
export type FoundDelivery = s.Static<typeof FoundDelivery>;

const FoundTask = s.named(
  "FoundTask",
  s.object({
    id: Id,
    login: s.text(),
    state: s.word(TASK_STATES),
    status_code: s.integer(),
    status_message: s.text(),
    type: s.nullable(s.text()),
    tag: s.nullable(s.text()),
    priority: s.integer(),
    runs: s.count(),
    created_at: Time,
    started_at: s.nullable(Time),
    completed_at: s.nullable(Time),
    start_at: s.nullable(Time),
    progress: s.nullable(Progress),
    ready: s.flag("Finished by a run, and not collected yet."),
    deliveries: s.list(FoundDelivery),
  }),
);
export type FoundTask = s.Static<typeof FoundTask>;

const LIMIT = { min: 1, max: 200, standard: 50 };
const SEARCH_LENGTH_MAX = 1000;

const Q_DESCRIPTION =
  "Words with spaces between, all of which must hold: `state:queued|running|completed|failed|cancelled|ready|waiting|delayed` " +
  "(`waiting` and `delayed` are the queued tasks that may run now and those that start later), " +
  "`delivery:waiting|scheduled|in_flight|retrying|delivered|given_up|refused` (several of them with commas between), " +
  '`type:T`, `tag:T` (`tag:"a b"`), `host:H`, `account:LOGIN`, `code:50010`, `after:TIME`, `before:TIME` (RFC 3339, a ' +
  "day of UTC, or 30m, 2h, 7d for how long ago), `id:UUID`. A bare UUID is an id, any other bare word a tag. With a host, " +
  "`delivery` is about the webhooks that go there. Empty means all tasks.";

export const PREVIEW_HOSTS_MAX = 20;

const Filter = s.object({
  login: s.nullable(s.text("Null is all accounts.")),
  host: s.nullable(s.text()),
  kind: s.nullable(DeliveryKind),
  states: s.nullable(s.list(DeliveryState)),
  since: s.nullable(Time),
  until: s.nullable(Time),
});
export type RedeliveryFilter = s.Static<typeof Filter>;

const HostCount = s.named("HostCount", s.object({ host: s.text(), deliveries: s.count() }));

const RedeliveryOrder = s.named(
  "RedeliveryOrder",
  s.object({
    id: Id,
    filter: Filter,
    per_second: s.integer({ minimum: 1 }),
    created_at: Time,
    redelivered: s.count("Deliveries that were given a fresh series so far."),
    ended_at: s.nullable(Time),
    is_cancelled: s.flag(),
  }),
);
export type RedeliveryOrder = s.Static<typeof RedeliveryOrder>;

const OneOrder = envelope({ redelivery: RedeliveryOrder });

// The filters of deliveries; a filter that is left out matches all.
const FILTER_FIELDS = {
  since: required(INSTANT, "Only what ended at this time or later. RFC 3339."),
  until: optional(INSTANT, "Only what ended before this time. RFC 3339."),
  host: optional(HOST, "Only what goes to this host: a name or an address, without port."),
  kind: optional(oneOf(DELIVERY_KINDS), "Only this one; else both."),
  states: optional(ENDED_STATES, "How it ended; given up or refused unless given."),
  login: optional(
    LOGIN,
    "Only of this account. For the operator: an account's is its own, always.",
  ),
};

export type GivenFilter = InputValues<typeof FILTER_FIELDS>;

/** The filter as a client writes it. */
export type WrittenFilter = WrittenInputs<typeof FILTER_FIELDS, null>;

const RATE_MAX = 1000;
const RATE_STANDARD = 20;
/** So many deliveries a second an account may order at most. */
export const RATE_OF_ACCOUNT_MAX = 50;

export const SEARCH_ANSWERS = {
  "GET /v1/tasks/search": envelope({
    tasks: s.list(FoundTask),
    next_cursor: NextCursor,
    examined_until: ExaminedUntil,
  }),
  "POST /v1/redeliveries/preview": envelope({
    deliveries: s.count(),
    hosts: s.list(HostCount, {
      maxItems: PREVIEW_HOSTS_MAX,
      description: "The most numerous first.",
    }),
    next_cursor: NextCursor,
    examined_until: {
      ...ExaminedUntil,
      description:
        "The oldest time that was searched; null if nothing was searched, and for an account.",
    },
  }),
  "POST /v1/redeliveries": OneOrder,
  "GET /v1/redeliveries": envelope({ redeliveries: s.list(RedeliveryOrder) }),
  "DELETE /v1/redeliveries/:order_id": OneOrder,
};

export const SEARCH_INPUTS = {
  "GET /v1/tasks/search": {
    query: {
      q: textUpTo(SEARCH_LENGTH_MAX, Q_DESCRIPTION),
      cursor: CURSOR,
      limit: wholeNumber(LIMIT, "Most tasks on a page."),
    },
  },
  "POST /v1/redeliveries/preview": { body: { ...FILTER_FIELDS, cursor: CURSOR } },
  "POST /v1/redeliveries": {
    body: {
      ...FILTER_FIELDS,
      per_second: withDefault(
        integerBetween(1, RATE_MAX),
        RATE_STANDARD,
        `Webhooks per second; for an account at most ${RATE_OF_ACCOUNT_MAX}.`,
      ),
    },
  },
} satisfies InputsFor<typeof SEARCH_ANSWERS>;
