import { ACTIVE_KEYS_MAX, mintAccount, mintKey, newWorkerToken } from "../domain/account/key.ts";
import type { Clock } from "../domain/clock/clock.ts";
import { IdGenerator } from "../domain/id.ts";
import type { Store } from "../store/store.ts";

export interface AccountMakerParts {
  readonly store: Pick<
    Store,
    "createAccount" | "createKey" | "createWorker" | "findSecrets" | "findKeyHolder"
  >;
  readonly clock: Clock;
}

export interface MadeAccount {
  readonly login: string;
  readonly key: string;
  readonly webhookSecret: string;
}

export class AccountMaker {
  readonly #ids = new IdGenerator();
  readonly #parts: AccountMakerParts;
  #made = 0;

  constructor(parts: AccountMakerParts) {
    this.#parts = parts;
  }

  /** Makes an account, with a login of its own unless given, or another key of it; null if it has all that it may. */
  async make(given: Partial<MadeAccount> = {}): Promise<MadeAccount | null> {
    const { store, clock } = this.#parts;
    const { login = `test-${++this.#made}`, key, webhookSecret } = given;
    const createdAt = clock.now();
    const minted = mintAccount(login, { createdAt, ids: this.#ids, key, webhookSecret });
    const secret = minted.account.webhookSecret;
    if ((await store.createAccount(minted.account)) === "created") {
      return { login, key: minted.first.key, webhookSecret: secret };
    }
    // An earlier run has left it in the file.
    if (given.login === undefined) return this.make(given);
    const further = mintKey({ label: null, createdAt, given: key }, this.#ids);
    const secrets = await store.findSecrets(login);
    if (secrets === null) return null;
    const made = { login, key: further.key, webhookSecret: secrets.webhookSecret };
    const holder = await store.findKeyHolder(further.toStore.hash);
    // An earlier run has given it the same key.
    if (holder !== null) return holder.login === login && !holder.keyRevoked ? made : null;
    const added = { ...further.toStore, login, createdAt, activeMax: ACTIVE_KEYS_MAX };
    return (await store.createKey(added)) === "created" ? made : null;
  }

  /** Makes a worker for these types and returns its token; null if an earlier run with the same seed has made it. */
  async makeWorker(types: readonly string[]): Promise<string | null> {
    const { store, clock } = this.#parts;
    const { key: token, hash, lastFour } = newWorkerToken();
    const createdAt = clock.now();
    // A run that repeats begins at the same time as the one before.
    const name = `dev-${lastFour}-${createdAt}`;
    const outcome = await store.createWorker({ name, hash, lastFour, types, createdAt });
    return outcome === "created" ? token : null;
  }
}
