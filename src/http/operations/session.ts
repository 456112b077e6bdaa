import type { Session as SessionShown } from "../../api/operator.ts";
import { version } from "../../assets.ts";
import { sessionEndsAt, SESSION_IDLE_MS, SESSIONS_MAX } from "../../domain/account/account.ts";
import {
  newSessionSecret,
  sessionHash,
  signInTokenHash,
} from "../../domain/account/credentials.ts";
import { HOUR_MS } from "../../domain/clock/duration.ts";
import { timeText } from "../../domain/clock/time.ts";
import { StatusError } from "../../domain/status.ts";
import { StoreError, type Actor, type AuditEntry } from "../../store/store.ts";
import { RateLimiter, type RatePolicy } from "../admission/quota.ts";
import {
  SET_COOKIE,
  cookieValues,
  findLiveSession,
  givenCookie,
  noteActivity,
  sessionCookie,
  takenCookie,
} from "../guard/browser.ts";
import { BEARER_CHALLENGE, judgeCredentials } from "../guard/gate.ts";
import type { ApiStore, OperationDeps } from "../operation-deps.ts";
import { defineOperation, type Call, type Operation } from "../operation.ts";

// Anything that sends a request here may be a browser that was talked into it.
const RULES = { access: "public", isDashboard: true, isSignIn: true, group: "Dashboard" } as const;

/** Refused sign-ins that the audit notes: in its 400 days they are less than what it keeps, so they push out nothing. */
const REFUSALS_NOTED = { limit: 60, windowMs: HOUR_MS };

const LIMIT: RatePolicy = {
  name: "sign-ins",
  detail: () => "This account signed in too often within the last hour.",
};

export function signIn(deps: OperationDeps): Operation {
  const refusals = new RateLimiter({ ...REFUSALS_NOTED, clock: deps.clock });
  return defineOperation("POST /v1/session", {
    ...RULES,
    id: "signIn",
    summary: "Sign in with a key",
    description:
      "Opens a session of an account, and ends the one whose cookie was sent. " +
      "It lasts 12 hours, 30 minutes without use, and no longer than the key does. An account signs in at most " +
      "100 times an hour.",
    answerHeaders: SET_COOKIE,
    codes: [40100, 40101, 40102, 40301, 42900, 50300, 50700],
    examples: { alice: { login: "alice", key: "pbd_live_…" } },
    async handle({ body: { login, key }, ...call }) {
      const credentials = { kind: "basic", login, key } as const;
      const verdict = await judgeCredentials(credentials, deps.store);
      if (verdict.kind === "refused") {
        const error = refusal(verdict.code, call, deps);
        if (refusals.count("all").isAllowed) await noteRefused(login, { call, deps });
        throw error;
      }
      const { keyId, login: owner } = verdict.holder;
      deps.uncounted.admit(`sign-ins of ${owner}`, LIMIT);
      const { secret, hash } = newSessionSecret();
      const createdAt = deps.clock.steady();
      const session = {
        hash,
        keyId,
        createdAt,
        sessionsMax: SESSIONS_MAX,
        audit: by(call.audit("session.opened", owner), "account", `${owner} ${keyId}`),
      };
      // Its key may have been revoked meanwhile, or its account disabled.
      if ((await deps.store.createSession(session)) === "refused") {
        const latest = await judgeCredentials(credentials, deps.store);
        throw refusal(latest.kind === "refused" ? latest.code : 40100, call, deps);
      }
      deps.keyUsage.note(keyId, call.now);
      return opened(secret, { login: owner, createdAt }, { call, deps });
    },
  });
}

export function signInByLink(deps: OperationDeps): Operation {
  return defineOperation("POST /v1/session/link", {
    ...RULES,
    id: "signInByLink",
    summary: "Sign in with a link",
    description:
      "Opens a session of the operator with a link of `postbackd admin link`. A link works once, within 30 minutes.",
    answerHeaders: SET_COOKIE,
    codes: [40100, 40301, 42900, 50300, 50700],
    examples: { link: { token: "pbd_link_…" } },
    async handle({ body: { token }, ...call }) {
      const hash = signInTokenHash(token);
      const { secret, hash: newHash } = newSessionSecret();
      const { now } = call;
      const createdAt = deps.clock.steady();
      const session = { hash: newHash, keyId: null, createdAt, sessionsMax: SESSIONS_MAX };
      const audit = by(call.audit("session.opened", null), "operator", "sign-in link");
      const outcome =
        hash === null ? "refused" : await deps.store.useSignInLink({ hash, now, session, audit });
      if (outcome === "refused") throw refusal(40100, call, deps);
      return opened(secret, { login: null, createdAt }, { call, deps });
    },
  });
}

export function sessionGet(deps: OperationDeps): Operation {
  return defineOperation("GET /v1/session", {
    ...RULES,
    id: "getSession",
    summary: "Get the session",
    description: "The account or operator of the session; null without a session.",
    codes: [40301, 50300],
    async handle(call) {
      const session = await findLiveSession(valuesOf(call), deps);
      if (session === null) return { fields: { session: null } };
      noteActivity(session, call.headers("x-refresh"), deps);
      const held = { login: session.holder?.login ?? null, createdAt: session.createdAt };
      return { fields: { session: sessionDocument(held, { call, deps }) } };
    },
  });
}

export function signOut({ store }: OperationDeps): Operation {
  return defineOperation("DELETE /v1/session", {
    ...RULES,
    id: "signOut",
    summary: "Sign out",
    description: "Ends the session of the cookie, and deletes the cookie.",
    answerHeaders: SET_COOKIE,
    codes: [40301, 50300, 50700],
    async handle(call) {
      await endEarlier(call, store);
      const cookie = takenCookie(sessionCookie(call.arrival()));
      return { fields: { session: null }, headers: { "set-cookie": cookie } };
    },
  });
}

/** The entry about a caller who was not signed in before. */
function by(entry: AuditEntry, kind: Actor["kind"], name: string): AuditEntry {
  return { ...entry, actor: { kind, name, address: entry.actor.address } };
}

// A client may have sent a key as the login: only an existing login is repeated.
async function noteRefused(given: string, { call, deps: { store } }: At): Promise<void> {
  try {
    const isKnown = (await store.findAccount(given)) !== null;
    await store.noteAudit(call.audit("session.refused", isKnown ? given : null));
  } catch (error) {
    // A store that cannot write reports that itself; a wrong key still gets its own response.
    if (!(error instanceof StoreError)) throw error;
  }
}

interface At {
  readonly call: Call;
  readonly deps: OperationDeps;
}

interface Held {
  /** Null for the operator. */
  readonly login: string | null;
  /** By the steady clock. */
  readonly createdAt: number;
}

// The cookie's value is new at each sign-in, so a value that another site set does not sign in.
async function opened(secret: string, held: Held, at: At) {
  await endEarlier(at.call, at.deps.store);
  const cookie = givenCookie(sessionCookie(at.call.arrival()), secret);
  return { fields: { session: sessionDocument(held, at) }, headers: { "set-cookie": cookie } };
}

// If another site has also set a cookie of this name, the browser sends both.
const ENDED_MAX = 4;

async function endEarlier(call: Call, store: ApiStore): Promise<void> {
  const hashes = new Set(
    valuesOf(call)
      .slice(0, ENDED_MAX)
      .map((value) => sessionHash(value)),
  );
  for (const hash of hashes) if (hash !== null) await store.endSession(hash);
}

function valuesOf(call: Call): readonly string[] {
  return cookieValues(call.headers("cookie"), sessionCookie(call.arrival()));
}

function refusal(
  code: 40100 | 40101 | 40102,
  call: Call,
  { refusedCredentials }: OperationDeps,
): StatusError {
  refusedCredentials.refuse(code, call.clientKey());
  // Without Basic: the browser's own dialog must not open on a page that asks by itself.
  return new StatusError(code, { headers: { "www-authenticate": BEARER_CHALLENGE } });
}

function sessionDocument(
  { login, createdAt }: Held,
  { call: { now }, deps: { clock } }: At,
): SessionShown {
  const leftMs = sessionEndsAt({ createdAt }) - clock.steady();
  return {
    role: login === null ? "operator" : "account",
    login,
    expires_at: timeText(now + leftMs),
    idle_seconds: SESSION_IDLE_MS / 1000,
    version,
    time: timeText(now),
  };
}
