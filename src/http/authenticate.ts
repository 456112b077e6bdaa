import type { IncomingMessage } from "node:http";

import {
  decideAuthentication,
  parseAuthorization,
  type Credentials,
  type KeyHolder,
} from "../domain/credentials.ts";
import { hashKey, isWellFormedKey } from "../domain/key.ts";
import { StatusError } from "../domain/status.ts";
import type { Store } from "../store/store.ts";
import { headerValues } from "./raw-headers.ts";

/** What of the store authentication reads. */
export type KeyStore = Pick<Store, "findKeyHolder">;

const BASIC_CHALLENGE = 'Basic realm="postbackd", charset="UTF-8"';
const BEARER_CHALLENGE = 'Bearer realm="postbackd"';

/**
 * Names the account that calls, or throws 40100, 40101 or 40102 (contract §2). The key is looked up on every
 * request: a revocation by any process counts at once.
 */
export async function authenticate(request: IncomingMessage, store: KeyStore): Promise<KeyHolder> {
  const credentials = parseAuthorization(headerValues(request, "authorization"));
  if (credentials === null) throw challenge(40100, null);
  // A key whose checksum does not fit was never made: nothing needs to be read to know that.
  const { key } = credentials;
  const holder = isWellFormedKey(key) ? await store.findKeyHolder(hashKey(key)) : null;
  const verdict = decideAuthentication(credentials, holder);
  if (verdict.kind === "refused") throw challenge(verdict.code, credentials);
  return verdict.holder;
}

function challenge(code: 40100 | 40101 | 40102, credentials: Credentials | null): StatusError {
  const isBearer = credentials?.kind === "bearer";
  const bearer = isBearer ? `${BEARER_CHALLENGE}, error="invalid_token"` : BEARER_CHALLENGE;
  return new StatusError(code, {
    headers: { "www-authenticate": [BASIC_CHALLENGE, bearer] },
  });
}
