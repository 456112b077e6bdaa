import type { Key as KeyShown, NewKey } from "../api/account.ts";
import { KEY_PREFIX } from "../domain/account/key-form.ts";
import { KEY_LABEL, KEY_LABEL_MAX } from "../domain/account/key-label.ts";
import { ACTIVE_KEYS_MAX, mintKey, type CreatedKey } from "../domain/account/key.ts";
import { systemClock } from "../domain/clock/clock.ts";
import { timeOrNull, timeText } from "../domain/clock/time.ts";
import { IdGenerator } from "../domain/id.ts";
import type { Key } from "../store/store.ts";
import { defineAdminCommand, LOGIN_ARG, noAccount } from "./admin-command.ts";
import { flag, TEXT, word } from "./arguments.ts";
import { defineCommand } from "./command.ts";
import { CommandFailure } from "./failure.ts";
import { tableLines, type Columns } from "./print.ts";
import { byCommand } from "./user.ts";

const NAME = "postbackd admin key";

const create = defineAdminCommand({
  description: "Make another API key for an account",
  example: `${NAME} create alice --label ci`,
  notes: `An account has at most ${ACTIVE_KEYS_MAX} active keys.`,
  args: {
    ...LOGIN_ARG,
    label: flag(KEY_LABEL, `What the key is for; at most ${KEY_LABEL_MAX} characters`),
  },
  async run({ login, label }, { store }) {
    const created = mintKey({ label, createdAt: systemClock.now() }, new IdGenerator());
    const { createdAt, toStore } = created;
    const key = { ...toStore, login, createdAt, activeMax: ACTIVE_KEYS_MAX };
    const audit = byCommand("key.created", login, { key: toStore.keyId });
    const outcome = await store.createKey({ ...key, audit });
    if (outcome === "no account") throw noAccount(login);
    if (outcome === "limit reached") {
      throw new CommandFailure(
        `account ${login} has ${ACTIVE_KEYS_MAX} active keys, the most there can be; ` +
          `revoke one first, with '${NAME} revoke KEY_ID'`,
      );
    }
    return {
      document: { login, key: newKeyDocument(created) },
      lines: [
        `login   ${login}`,
        `key     ${created.key}`,
        `key_id  ${toStore.keyId}`,
        "",
        "Store the key now: it is shown this once and cannot be shown again.",
      ],
    };
  },
});

const list = defineAdminCommand({
  description: "List an account's keys, oldest first",
  example: `${NAME} list alice`,
  args: LOGIN_ARG,
  async run({ login }, { store }) {
    const keys = await store.listKeys(login);
    if (keys === null) throw noAccount(login);
    return { document: { login, keys: keys.map(keyDocument) }, lines: tableLines(keys, COLUMNS) };
  },
});

const revoke = defineAdminCommand({
  description: "Refuse a key from the next request on, for good",
  example: `${NAME} revoke key_01980f2a4c7e7b3f9d20a1b2c3d4e5f6`,
  args: { key_id: word(TEXT, "Id of the key, from 'key list'") },
  async run({ key_id: keyId }, { store }) {
    const revokedAt = systemClock.now();
    const key = await store.revokeKey({
      keyId,
      accountId: null,
      revokedAt,
      audit: byCommand("key.revoked", keyId),
    });
    if (key === null) {
      // The given text is not repeated: it may be the key itself, and messages end up in logs.
      const isKey = keyId.startsWith(KEY_PREFIX);
      const what = isKey ? "this is a key, not the id of one" : "there is no key with this id";
      throw new CommandFailure(`${what}; '${NAME} list LOGIN' shows the ids`);
    }
    const document = keyDocument(key);
    return {
      document: { key: document },
      lines: [`Key ${keyId} is revoked since ${document.revoked_at}.`],
    };
  },
});

export const keyCommand = defineCommand({
  description: "Make, list and revoke API keys",
  example: `${NAME} create alice --label ci`,
  subCommands: { create, list, revoke },
});

/** A new key as JSON shows it, in full. */
export function newKeyDocument({ key, createdAt, toStore }: CreatedKey): NewKey {
  return {
    key_id: toStore.keyId,
    key,
    prefix: KEY_PREFIX,
    last_four: toStore.lastFour,
    label: toStore.label,
    created_at: timeText(createdAt),
  };
}

/** A key as JSON shows it: never the key itself. */
export function keyDocument(key: Key): KeyShown {
  return {
    key_id: key.keyId,
    prefix: KEY_PREFIX,
    last_four: key.lastFour,
    label: key.label,
    created_at: timeText(key.createdAt),
    last_used_at: timeOrNull(key.lastUsedAt),
    revoked_at: timeOrNull(key.revokedAt),
  };
}

const COLUMNS: Columns<Key> = {
  KEY_ID: ({ keyId }) => keyId,
  KEY: ({ lastFour }) => `${KEY_PREFIX}…${lastFour}`,
  LABEL: ({ label }) => label,
  CREATED: ({ createdAt }) => timeText(createdAt),
  "LAST USED": ({ lastUsedAt }) => timeOrNull(lastUsedAt),
  REVOKED: ({ revokedAt }) => timeOrNull(revokedAt),
};
