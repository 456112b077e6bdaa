import {
  decideAuthentication,
  parseAuthorization,
  type Authentication,
  type Credentials,
  type KeyHolder,
} from "../../domain/account/credentials.ts";
import { hashKey, isWellFormedKey, isWellFormedWorkerToken } from "../../domain/account/key.ts";
import { StatusError } from "../../domain/status.ts";
import type { Store, WorkerHolder } from "../../store/store.ts";

type KeyStore = Pick<Store, "findKeyHolder">;

const BASIC_CHALLENGE = 'Basic realm="postbackd", charset="UTF-8"';
/** For people who sign in at a page, where a browser's own dialog must not open. */
export const BEARER_CHALLENGE = 'Bearer realm="postbackd"';
const INVALID_TOKEN = `${BEARER_CHALLENGE}, error="invalid_token"`;

/**
 * Returns the account that calls by its `Authorization` headers, or throws 40100, 40101 or 40102 (contract §2). The
 * key is looked up on every request: a revocation by any process counts at once.
 */
export async function authenticate(
  headers: readonly string[],
  store: KeyStore,
): Promise<KeyHolder> {
  const credentials = parseAuthorization(headers);
  if (credentials === null) throw challenge(40100, [BASIC_CHALLENGE, BEARER_CHALLENGE]);
  const verdict = await judgeCredentials(credentials, store);
  if (verdict.kind === "authenticated") return verdict.holder;
  const bearer = credentials.kind === "bearer" ? INVALID_TOKEN : BEARER_CHALLENGE;
  throw challenge(verdict.code, [BASIC_CHALLENGE, bearer]);
}

/** Judges credentials, however they came, by the present state of their key (contract §2). */
export async function judgeCredentials(
  credentials: Credentials,
  store: KeyStore,
): Promise<Authentication> {
  // A key with a wrong checksum was never made: no look-up is needed to know that.
  const { key } = credentials;
  const holder = isWellFormedKey(key) ? await store.findKeyHolder(hashKey(key)) : null;
  return decideAuthentication(credentials, holder);
}

/**
 * Returns the worker that calls by its `Authorization` headers, or throws 40100 or 40101 (contract §7). It accepts
 * only a worker's token, as Bearer, and looks it up on every request, as keys are. No Basic: a worker has no login.
 */
export async function authenticateWorker(
  headers: readonly string[],
  store: Pick<Store, "findWorkerHolder">,
): Promise<WorkerHolder> {
  const credentials = parseAuthorization(headers);
  if (credentials?.kind !== "bearer") throw challenge(40100, [BEARER_CHALLENGE]);
  const { key } = credentials;
  const worker = isWellFormedWorkerToken(key) ? await store.findWorkerHolder(hashKey(key)) : null;
  if (worker === null) throw challenge(40100, [INVALID_TOKEN]);
  if (worker.isRevoked) throw challenge(40101, [INVALID_TOKEN]);
  return worker;
}

/** The same refusal without Basic in its challenges. */
export function withoutBasic(error: StatusError): StatusError {
  const challenges = error.headers["www-authenticate"];
  if (typeof challenges !== "object") return error;
  const left = challenges.filter((line) => line !== BASIC_CHALLENGE);
  return new StatusError(error.code, {
    details: error.details,
    headers: { ...error.headers, "www-authenticate": left },
  });
}

function challenge(code: 40100 | 40101 | 40102, lines: readonly string[]): StatusError {
  return new StatusError(code, { headers: { "www-authenticate": lines } });
}
