import {
  approveRequest,
  createSignInLink,
  denyRequest,
  denyRequests,
  requestRecord,
} from "../admin/account.ts";
import { NEW_LOGIN, PENDING_REQUESTS_MAX, SIGN_IN_LINK_MS } from "../domain/account/account.ts";
import { systemClock } from "../domain/clock/clock.ts";
import { MINUTE_MS, durationText } from "../domain/clock/duration.ts";
import { timeText } from "../domain/clock/time.ts";
import { DURATION } from "../domain/rule.ts";
import type { Undecidable } from "../store/store.ts";
import { newAccountAnswer } from "./admin-account.ts";
import { defineAdminCommand } from "./admin-command.ts";
import { TEXT, flag, optionalWord, required, toggle, word } from "./arguments.ts";
import { defineCommand } from "./command.ts";
import { UsageError, fail } from "./failure.ts";
import { answer, listAnswer, shortText } from "./print.ts";
import { YES_ARG, confirm } from "./terminal.ts";

const NAME = "postbackd admin access";

/** Twice the most that may wait. */
const REQUESTS_LISTED_MAX = 2 * PENDING_REQUESTS_MAX;

const list = defineAdminCommand({
  description: "List the access requests that wait for a decision, oldest first",
  example: `${NAME} list --all`,
  notes: "The table cuts long texts; --json shows them in full.",
  args: { all: toggle("Also list the requests that were decided") },
  async run({ all }, { store }) {
    const which = all ? "all" : "pending";
    const found = await store.listAccessRequests({ which, limit: REQUESTS_LISTED_MAX + 1 });
    const requests = found.slice(0, REQUESTS_LISTED_MAX).map(requestRecord);
    const hasMore = found.length > REQUESTS_LISTED_MAX;
    const more = ["", `More exist; only the oldest ${REQUESTS_LISTED_MAX} are shown.`];
    const rows = requests.map(({ login, message, decision, ...request }) => ({
      ...request,
      name: shortCell(request.name, 20),
      company: shortCell(request.company, 20),
      decision: login === null ? decision : `${decision} as ${login}`,
      message: shortCell(message, 40),
    }));
    const document = { requests, has_more: hasMore };
    return listAnswer(document, rows, { none: NO_REQUEST[which], end: hasMore ? more : [] });
  },
});

const NO_REQUEST = {
  all: "No access request exists.",
  pending: `No access request waits for a decision; '${NAME} list --all' shows decided ones.`,
};

function shortCell(text: string | null, lengthMax: number): string | null {
  return text && shortText(text, lengthMax);
}

const approve = defineAdminCommand({
  description: "Create the requested account, with its first API key and its webhook secret",
  example: `${NAME} approve 01980f2a-4c7e-7b3f-9d20-a1b2c3d4e5f6 --login alice`,
  notes: "Nothing is sent: hand over the key and the secret yourself.",
  args: {
    request_id: word(TEXT, "Id of the request, from 'access list'"),
    login: required(flag(NEW_LOGIN, "Login of the new account; required")),
  },
  async run({ request_id: id, login }, parts) {
    const outcome = await approveRequest({ id, login }, parts);
    if (outcome === "exists") {
      fail(`the login ${login} exists already; approve the request with another --login`);
    }
    if (typeof outcome === "string") return undecidable(outcome);
    const { document, lines } = newAccountAnswer(outcome);
    return answer({ request_id: id, ...document }, ...lines);
  },
});

const deny = defineAdminCommand({
  description: "Deny an access request",
  example: `${NAME} deny 01980f2a-4c7e-7b3f-9d20-a1b2c3d4e5f6`,
  notes:
    "Nothing is sent to the person who requested it. After a flood, deny --all --older-than DURATION denies all\n" +
    "requests that were made before the flood ended.",
  args: {
    request_id: optionalWord(TEXT, "Id of the request, from 'access list'; else --all"),
    all: toggle("Deny all requests that wait for a decision"),
    "older-than": flag(DURATION, "With --all: only requests older than this, such as 2h"),
    ...YES_ARG,
  },
  plan({ request_id: id, all, "older-than": ageMs, yes }) {
    if (all === (id !== null)) throw new UsageError("give REQUEST_ID or --all");
    if (!all && ageMs !== null) throw new UsageError("--older-than goes with --all");
    return async (parts) => {
      if (id === null) {
        const which = ageMs === null ? "" : ` that were made more than ${durationText(ageMs)} ago`;
        await confirm({ yes }, () => `Access requests${which} are denied; this cannot be undone.`);
        const denied = await denyRequests(ageMs, parts);
        return answer({ denied }, `Access requests denied: ${denied}.`);
      }
      const outcome = await denyRequest(id, parts);
      if (outcome !== "denied") undecidable(outcome);
      const decided_at = timeText(parts.now);
      const document = { request_id: id, decision: outcome, decided_at, login: null };
      return answer(document, `Access request ${id} is denied.`);
    };
  },
});

export const accessCommand = defineCommand({
  description: "List, approve and deny requests for access",
  example: `${NAME} list`,
  subCommands: { list, approve, deny },
});

// The given text is not repeated: it may be anything.
function undecidable(reason: Undecidable): never {
  fail(
    reason === "unknown"
      ? `no access request has this id; '${NAME} list' shows the ids`
      : `this access request is already decided; '${NAME} list --all' shows how`,
  );
}

export const linkCommand = defineAdminCommand({
  description: "Create a link that signs the operator in at the dashboard, once",
  example: "postbackd admin link",
  notes:
    "The first person who opens it is the operator there for up to 12 hours. It leads to public_url where that is set, else\n" +
    "to the running daemon.",
  args: {},
  settings: ["public-url"],
  mayCreate: true,
  async run(_given, { store, config, audit }) {
    // Loaded here, because the help needs none of it.
    const { findDashboard } = await import("../ops/health.ts");
    if (!config.dashboard) {
      fail(
        "the dashboard is switched off; take dashboard = false out of the configuration, or POSTBACKD_DASHBOARD out of the environment",
      );
    }
    const place =
      (await findDashboard(config, systemClock)) ??
      fail(
        `no daemon serves ${config.database}, and with port 0 its address is unknown; start the daemon first, or give --public-url`,
      );
    const { path, expiresAt } = await createSignInLink({
      store,
      clock: systemClock,
      audit: audit("session.link_made", null),
    });
    const minutes = SIGN_IN_LINK_MS / MINUTE_MS;
    const url = place.url + path;
    const start = "No daemon answers there yet: start it with 'postbackd start' first.";
    return answer(
      { link: { url, expires_at: timeText(expiresAt) } },
      url,
      "",
      `Open it within ${minutes} minutes: it signs you in as the operator, and works once.`,
      ...(place.isServed === false ? [start] : []),
    );
  },
});
