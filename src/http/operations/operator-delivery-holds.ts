import { COUNTED_HOLDS_MAX, type DeliveryHold as HoldShown } from "../../api/delivery-hold.ts";
import { timeText } from "../../domain/clock/time.ts";
import { StatusError } from "../../domain/status.ts";
import { HOLDS_MAX, scopeKey, scopeText } from "../../domain/webhook/delivery-hold.ts";
import type { DeliveryHold, HoldScope } from "../../store/store.ts";
import { invalidField } from "../fields.ts";
import type { ApiStore, OperationDeps } from "../operation-deps.ts";
import { defineOperation, type Operation } from "../operation.ts";

// As others hold by commands: which session it was is in the audit.
const HELD_BY = "operator";

const EXAMPLE = { host: "hooks.example.com" };

export function holdList({ store }: OperationDeps): Operation {
  return defineOperation("GET /v1/operator/delivery_holds", {
    access: "operator",
    doc: {
      id: "listDeliveryHolds",
      group: "Operator",
      summary: "List held webhooks",
      description:
        "Which webhooks are held, since when, why, and how many wait; the oldest hold first. A webhook goes out when no hold " +
        "covers it any more, so one that two holds cover is counted by both.",
    },
    async handle() {
      const all = await store.listDeliveryHolds();
      const holds: HoldShown[] = [];
      // One after the other: a count may take its time, and the reads of others come in between.
      for (const [i, hold] of all.entries()) {
        const waiting = i < COUNTED_HOLDS_MAX ? await store.countScheduled(hold) : null;
        holds.push(holdDocument(hold, waiting));
      }
      return { fields: { holds } };
    },
  });
}

export function holdCreate({ store, holdsChanged }: OperationDeps): Operation {
  return defineOperation("POST /v1/operator/delivery_holds", {
    access: "operator",
    doc: {
      id: "holdDeliveries",
      group: "Operator",
      summary: "Hold webhooks",
      description:
        "Holds the webhooks of an account, to a host, or both; all of them where neither is named. The daemons begin none within " +
        "two seconds, and what is under way goes to its end. No retry is lost: what became due meanwhile goes out after the " +
        "release. What is held already stays as it is, with its first reason.",
      codes: [50700],
      examples: { host: { ...EXAMPLE, reason: "maintenance" }, all: {} },
    },
    async handle({ body: { login, host, reason }, audit, now }) {
      const scope = await scopeOf({ login, host }, store);
      const hold = { ...scope, since: now, reason, heldBy: HELD_BY };
      const entry = audit("delivery.held", login, { host, reason });
      const outcome = await store.holdDeliveries({ ...hold, audit: entry });
      if (outcome === "too many") throw tooMany();
      if (outcome === "held") holdsChanged();
      const kept = await findHold(scope, store);
      const waiting = await store.countScheduled(scope);
      return { fields: { hold: holdDocument(kept ?? { ...hold, login }, waiting) } };
    },
  });
}

export function holdRelease({ store, holdsChanged }: OperationDeps): Operation {
  return defineOperation("POST /v1/operator/delivery_holds/release", {
    access: "operator",
    doc: {
      id: "releaseDeliveries",
      group: "Operator",
      summary: "Release held webhooks",
      description:
        "Ends the hold that was made with the same account and host, and no other; 40400 where there is none. What waits goes " +
        "out, in its turn, unless another hold covers it.",
      codes: [40400, 50700],
      examples: { host: EXAMPLE, all: {} },
    },
    async handle({ body: { login, host }, audit }) {
      const scope = await scopeOf({ login, host }, store);
      const entry = audit("delivery.released", login, { host });
      if (!(await store.releaseDeliveries({ ...scope, audit: entry }))) {
        const detail = `No hold is of exactly ${scopeText({ login, host })}: the list of all shows which there are.`;
        throw new StatusError(40400, { detail });
      }
      holdsChanged();
      const left = await store.listDeliveryHolds();
      const waiting = await store.countScheduled(scope);
      return { fields: { login, host, waiting, holds_left: left.length } };
    },
  });
}

interface NamedScope {
  readonly login: string | null;
  readonly host: string | null;
}

async function scopeOf({ login, host }: NamedScope, store: ApiStore): Promise<HoldScope> {
  if (login === null) return { accountId: null, host };
  const account = await store.findAccount(login);
  if (account === null) throw invalidField("login", "There is no account with this login.");
  return { accountId: account.accountId, host };
}

/** The hold of exactly this scope; null where somebody has released it. */
async function findHold(scope: HoldScope, store: ApiStore): Promise<DeliveryHold | null> {
  const holds = await store.listDeliveryHolds();
  return holds.find((each) => scopeKey(each) === scopeKey(scope)) ?? null;
}

function tooMany(): StatusError {
  const detail = `There are ${HOLDS_MAX} holds: release some, or hold more at once.`;
  return new StatusError(40000, { detail });
}

function holdDocument(hold: DeliveryHold, waiting: number | null): HoldShown {
  const { login, host, since, reason, heldBy } = hold;
  return { login, host, since: timeText(since), reason, held_by: heldBy, waiting };
}
