import type { AccessRequest as AccessRequestShown } from "../api/operator.ts";
import type { AccessDecision, AccessRequest } from "../domain/account/access-request.ts";
import { PENDING_REQUESTS_MAX } from "../domain/account/access-request.ts";
import { NEW_LOGIN } from "../domain/account/login.ts";
import { systemClock } from "../domain/clock/clock.ts";
import { durationText, timeOrNull, timeText } from "../domain/clock/time.ts";
import { DURATION } from "../domain/rule.ts";
import type { Undecidable } from "../store/store.ts";
import { mintAccountNow, newAccountAnswer } from "./admin-account.ts";
import { defineAdminCommand, type AdminStep } from "./admin-command.ts";
import { flag, optionalWord, TEXT, toggle, word } from "./arguments.ts";
import { defineCommand } from "./command.ts";
import { CommandFailure, UsageError } from "./failure.ts";
import { shortText, tableLines, type Columns } from "./print.ts";
import { confirm, YES_ARG } from "./terminal.ts";
import { byCommand } from "./user.ts";

const NAME = "postbackd admin access";

/** Twice the number that may wait at once; beyond it the list tells that it ends too early. */
const REQUESTS_LISTED_MAX = 2 * PENDING_REQUESTS_MAX;

/** Cells of the table are cut after so many characters; `--json` shows everything. */
const CELL_LENGTHS_MAX = { name: 20, message: 40 } as const;

const REQUEST_ARG = { request_id: word(TEXT, "Id of the request, from 'access list'") };

const list = defineAdminCommand({
  description: "List the access requests that wait for a decision, oldest first",
  example: `${NAME} list --all`,
  notes: "The table cuts long texts; --json shows them in full.",
  args: { all: toggle("Also list the requests that were decided") },
  async run({ all }, { store }) {
    const which = all ? "all" : "pending";
    const found = await store.listAccessRequests({ which, limit: REQUESTS_LISTED_MAX + 1 });
    const requests = found.slice(0, REQUESTS_LISTED_MAX);
    const hasMore = found.length > REQUESTS_LISTED_MAX;
    const end = hasMore
      ? ["", `There are more; only the oldest ${REQUESTS_LISTED_MAX} are shown.`]
      : [];
    return {
      document: { requests: requests.map(requestDocument), has_more: hasMore },
      lines:
        requests.length === 0 ? [NO_REQUEST[which]] : [...tableLines(requests, COLUMNS), ...end],
    };
  },
});

const approve = defineAdminCommand({
  description: "Make the requested account, with its first API key and its webhook secret",
  example: `${NAME} approve 01980f2a-4c7e-7b3f-9d20-a1b2c3d4e5f6 --login alice`,
  notes: "Nothing is sent: hand over the key and the secret yourself.",
  args: {
    ...REQUEST_ARG,
    login: flag(NEW_LOGIN, "Login of the account to make; must be given"),
  },
  plan({ request_id: id, login }) {
    if (login === null) throw new UsageError("--login LOGIN is missing");
    return async ({ store }) => {
      const minted = mintAccountNow(login);
      const { account } = minted;
      const approval = { id, decidedAt: account.createdAt, account };
      const outcome = await store.approveAccessRequest({
        ...approval,
        audit: byCommand("access.approved", login, { request: id }),
      });
      if (outcome === "exists") {
        throw new CommandFailure(
          `the login ${login} exists already and the request still waits; approve it with another --login`,
        );
      }
      if (outcome !== "approved") throw undecidable(outcome);
      const { document, lines } = newAccountAnswer(minted);
      return { document: { request_id: id, ...document }, lines };
    };
  },
});

const deny = defineAdminCommand({
  description: "Decide that no account is made",
  example: `${NAME} deny 01980f2a-4c7e-7b3f-9d20-a1b2c3d4e5f6`,
  notes:
    "Nothing is sent to the person who asked. After a flood, deny --all --older-than DURATION decides all\n" +
    "requests that were made before it.",
  args: {
    request_id: optionalWord(TEXT, "Id of the request, from 'access list'; else --all"),
    all: toggle("Deny every request that waits for a decision"),
    "older-than": flag(
      DURATION,
      "With --all: only requests that were made so long ago, such as 2h",
    ),
    ...YES_ARG,
  },
  plan({ request_id: id, all, "older-than": ageMs, yes }) {
    if (all === (id !== null)) throw new UsageError("give REQUEST_ID or --all");
    if (!all && ageMs !== null) throw new UsageError("--older-than goes with --all");
    return id === null ? denyAll({ ageMs, yes }) : denyOne(id);
  },
});

function denyAll({ ageMs, yes }: { ageMs: number | null; yes: boolean }): AdminStep {
  return async ({ store }) => {
    const decidedAt = systemClock.now();
    // Without an age, also requests from a clock that was ahead.
    const madeBefore = ageMs === null ? Number.MAX_SAFE_INTEGER : decidedAt - ageMs;
    const which = ageMs === null ? "" : ` that were made more than ${durationText(ageMs)} ago`;
    await confirm({ yes }, () => `Access requests${which} are denied; this cannot be undone.`);
    const audit = byCommand("access.denied", null, {
      made_before: timeOrNull(ageMs === null ? null : madeBefore),
    });
    const denied = await store.denyAccessRequests({ madeBefore, decidedAt, audit });
    return { document: { denied }, lines: [`Access requests denied: ${denied}.`] };
  };
}

function denyOne(id: string): AdminStep {
  return async ({ store }) => {
    const decidedAt = systemClock.now();
    const outcome = await store.denyAccessRequest({
      id,
      decidedAt,
      audit: byCommand("access.denied", id),
    });
    if (outcome !== "denied") throw undecidable(outcome);
    return {
      document: {
        request_id: id,
        ...decisionDocument({ kind: "denied", decidedAt, login: null }),
      },
      lines: [`Access request ${id} is denied.`],
    };
  };
}

export const accessCommand = defineCommand({
  description: "List, approve and deny requests for access",
  example: `${NAME} list`,
  subCommands: { list, approve, deny },
});

const NO_REQUEST = {
  all: "There is no access request.",
  pending: `No access request waits for a decision; '${NAME} list --all' shows decided ones.`,
};

// The given text is not repeated: unless it is known, it may be anything.
function undecidable(reason: Undecidable): CommandFailure {
  return new CommandFailure(
    reason === "unknown"
      ? `there is no access request with this id; '${NAME} list' shows the ids`
      : `this access request was decided already; '${NAME} list --all' shows how`,
  );
}

type Decision = Pick<AccessRequestShown, "decision" | "decided_at"> & {
  readonly login: string | null;
};

/** A request as JSON shows it. */
export function requestDocument(
  request: AccessRequest,
): Omit<AccessRequestShown, "id"> & Decision & { readonly request_id: string } {
  const { id, email, name, company, message, createdAt, decision } = request;
  return {
    request_id: id,
    email,
    name,
    company,
    message,
    created_at: timeText(createdAt),
    ...decisionDocument(decision),
  };
}

function decisionDocument(decision: AccessDecision | null): Decision {
  return {
    decision: decision?.kind ?? null,
    decided_at: timeOrNull(decision?.decidedAt ?? null),
    login: decision?.login ?? null,
  };
}

const COLUMNS: Columns<AccessRequest> = {
  REQUEST_ID: ({ id }) => id,
  // In full, because the answer goes there.
  EMAIL: ({ email }) => email,
  NAME: ({ name }) => shortCell(name, CELL_LENGTHS_MAX.name),
  COMPANY: ({ company }) => shortCell(company, CELL_LENGTHS_MAX.name),
  CREATED: ({ createdAt }) => timeText(createdAt),
  DECISION: ({ decision }) => decision && decisionText(decision),
  MESSAGE: ({ message }) => shortCell(message, CELL_LENGTHS_MAX.message),
};

function shortCell(text: string | null, lengthMax: number): string | null {
  return text === null ? null : shortText(text, lengthMax);
}

function decisionText({ kind, login }: AccessDecision): string {
  return login === null ? kind : `${kind} as ${login}`;
}
