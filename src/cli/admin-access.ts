import type { AccessRequest as AccessRequestShown } from "../api/operator.ts";
import type { AccessDecision, AccessRequest } from "../domain/account/access-request.ts";
import { PENDING_REQUESTS_MAX } from "../domain/account/access-request.ts";
import { NEW_LOGIN } from "../domain/account/login.ts";
import { systemClock } from "../domain/clock/clock.ts";
import { timeOrNull, timeText } from "../domain/clock/time.ts";
import type { Undecidable } from "../store/store.ts";
import { mintAccountNow, newAccountAnswer } from "./admin-account.ts";
import { defineAdminCommand } from "./admin-command.ts";
import type { AdminStep } from "./admin-command.ts";
import { flag, TEXT, toggle, word } from "./arguments.ts";
import type { Command } from "./command.ts";
import { CommandFailure, UsageError } from "./failure.ts";
import { cellText, shortText, tableLines } from "./print.ts";

const NAME = "postbackd admin access";

/** Twice the number that may wait at once; beyond it the list tells that it ends too early. */
const LISTED_MAX = 2 * PENDING_REQUESTS_MAX;

/** Cells of the table are cut after so many characters; `--json` shows everything. */
const CELL_LENGTHS_MAX = { name: 20, message: 40 } as const;

const REQUEST_ARG = {
  request_id: word(TEXT, "Id of the request, from 'access list'"),
};

const list = defineAdminCommand({
  name: `${NAME} list`,
  description: "List the access requests that wait for a decision, oldest first",
  example: `${NAME} list --all`,
  notes: "The table cuts long texts; --json shows them in full.",
  args: { all: toggle("Also list the requests that were decided") },
  plan: ({ all }) => listRequests(all ? "all" : "pending"),
});

const approve = defineAdminCommand({
  name: `${NAME} approve`,
  description: "Make the requested account, with its first API key and its webhook secret",
  example: `${NAME} approve 01980f2a-4c7e-7b3f-9d20-a1b2c3d4e5f6 --login alice`,
  notes: "Nothing is sent: hand over the key and the secret yourself.",
  args: {
    ...REQUEST_ARG,
    login: flag(NEW_LOGIN, "Login of the account to make; must be given"),
  },
  plan({ request_id: id, login }) {
    if (login === null) throw new UsageError("--login LOGIN is missing");
    return approveRequest(id, login);
  },
});

const deny = defineAdminCommand({
  name: `${NAME} deny`,
  description: "Decide that no account is made",
  example: `${NAME} deny 01980f2a-4c7e-7b3f-9d20-a1b2c3d4e5f6`,
  notes: "Nothing is sent to the person who asked.",
  args: REQUEST_ARG,
  plan: ({ request_id: id }) => denyRequest(id),
});

/** `postbackd admin access …`. */
export const accessCommand: Command = {
  name: NAME,
  description: "List, approve and deny requests for access",
  example: `${NAME} list`,
  subCommands: { list, approve, deny },
};

function listRequests(which: "pending" | "all"): AdminStep {
  return async (store) => {
    const found = await store.listAccessRequests({ which, limit: LISTED_MAX + 1 });
    const requests = found.slice(0, LISTED_MAX);
    const hasMore = found.length > LISTED_MAX;
    return {
      document: { requests: requests.map(requestDocument), has_more: hasMore },
      lines: requests.length === 0 ? noRequest(which) : requestLines(requests, { hasMore }),
    };
  };
}

function noRequest(which: "pending" | "all"): readonly string[] {
  if (which === "all") return ["There is no access request."];
  return [`No access request waits for a decision; '${NAME} list --all' shows decided ones.`];
}

function approveRequest(id: string, login: string): AdminStep {
  return async (store) => {
    const minted = mintAccountNow(login);
    const { account } = minted;
    const approval = { id, decidedAt: account.createdAt, account };
    const outcome = await store.approveAccessRequest(approval);
    if (outcome === "exists") throw loginTaken(login);
    if (outcome !== "approved") throw undecidable(outcome);
    const { document, lines } = newAccountAnswer(minted);
    return { document: { request_id: id, ...document }, lines };
  };
}

function loginTaken(login: string): CommandFailure {
  return new CommandFailure(
    `the login ${login} exists already and the request still waits; approve it with another --login`,
  );
}

function denyRequest(id: string): AdminStep {
  return async (store) => {
    const decidedAt = systemClock.now();
    const outcome = await store.denyAccessRequest({ id, decidedAt });
    if (outcome !== "denied") throw undecidable(outcome);
    return {
      document: { request_id: id, ...decisionDocument({ kind: "denied", decidedAt, login: null }) },
      lines: [`Access request ${id} is denied.`],
    };
  };
}

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

function requestDocument(
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

function requestLines(
  requests: readonly AccessRequest[],
  { hasMore }: { readonly hasMore: boolean },
): readonly string[] {
  const head = ["REQUEST_ID", "EMAIL", "NAME", "COMPANY", "CREATED", "DECISION", "MESSAGE"];
  const rows = requests.map((request) => [
    request.id,
    // In full, because the answer goes there.
    request.email,
    shortCell(request.name, CELL_LENGTHS_MAX.name),
    shortCell(request.company, CELL_LENGTHS_MAX.name),
    timeText(request.createdAt),
    decisionText(request.decision),
    shortCell(request.message, CELL_LENGTHS_MAX.message),
  ]);
  const end = hasMore ? ["", `There are more; only the oldest ${LISTED_MAX} are shown.`] : [];
  return [...tableLines(head, rows), ...end];
}

function shortCell(text: string | null, lengthMax: number): string {
  return cellText(text === null ? null : shortText(text, lengthMax));
}

function decisionText(decision: AccessDecision | null): string {
  if (decision === null) return "-";
  const { kind, login } = decision;
  return login === null ? kind : `${kind} as ${login}`;
}
