import { newWebhookSecret } from "../../domain/account.ts";
import { StatusError } from "../../domain/status.ts";
import { timeOrNull } from "../../domain/time.ts";
import type { Store } from "../../store/store.ts";
import { envelopeSchema } from "../api-schema.ts";
import { schemaRef } from "../json-schema.ts";
import { defineOperation, NO_BODY, type Operation, type OperationDoc } from "../operation.ts";
import { LOGIN } from "../operator-schema.ts";
import { NO_QUERY } from "../query.ts";
import { envelope } from "../respond.ts";

export interface OperatorAccountChangesDeps {
  readonly store: Pick<
    Store,
    "findAccount" | "setAccountDisabled" | "rotateSecret" | "finishRotation"
  >;
}

type ChangeStore = OperatorAccountChangesDeps["store"];

/** What the operator does to one account; answers how it stands then. */
interface Change {
  readonly name: "disable" | "enable" | "rotate" | "finish";
  readonly doc: Pick<OperationDoc, "id" | "summary" | "description">;
  /** Throws a StatusError where it cannot be done. */
  readonly make: (store: ChangeStore, change: { login: string; now: number }) => Promise<unknown>;
}

/** POST /v1/operator/accounts/{disable,enable,rotate,finish}/{login}. */
export function accountChanges({ store }: OperatorAccountChangesDeps): readonly Operation[] {
  return CHANGES.map(({ name, doc, make }) =>
    defineOperation({
      method: "POST",
      path: `/v1/operator/accounts/${name}/:login`,
      access: "operator",
      query: NO_QUERY,
      body: NO_BODY,
      doc: {
        ...doc,
        group: "Operator",
        params: {
          login: { description: "Login of the account.", schema: LOGIN, example: "alice" },
        },
        answer: envelopeSchema({ account: schemaRef("AccountState") }),
        codes: [40400, 50700],
      },
      async handle({ params, now }) {
        const login = params["login"] ?? "";
        await make(store, { login, now });
        const account = await store.findAccount(login);
        if (account === null) throw new StatusError(40400);
        const { disabledAt, isRotating } = account;
        const shown = { login, disabled_at: timeOrNull(disabledAt), is_rotating: isRotating };
        return { status: 200, text: envelope({ account: shown }) };
      },
    }),
  );
}

const CHANGES: readonly Change[] = [
  {
    name: "disable",
    doc: {
      id: "disableAccount",
      summary: "Disable an account",
      description:
        "Its requests are refused from now on and its sessions are over. Its tasks go on, and its webhooks are still sent. " +
        "A second time changes nothing.",
    },
    make: (store, { login, now }) => store.setAccountDisabled({ login, disabledAt: now }),
  },
  {
    name: "enable",
    doc: {
      id: "enableAccount",
      summary: "Enable an account",
      description: "Its requests are accepted again.",
    },
    make: (store, { login }) => store.setAccountDisabled({ login, disabledAt: null }),
  },
  {
    name: "rotate",
    doc: {
      id: "rotateSecret",
      summary: "Begin to replace an account's webhook secret",
      description:
        "Its webhooks are signed with both secrets until the rotation is finished: `X-Signature` with the current one, " +
        "`X-Signature-Next` with the next one. The account sees both in its user data.",
    },
    async make(store, { login }) {
      const outcome = await store.rotateSecret({ login, next: newWebhookSecret() });
      if (outcome !== "already rotating") return;
      const detail = "The secret of this account is rotating already: finish that rotation first.";
      throw new StatusError(40000, { detail });
    },
  },
  {
    name: "finish",
    doc: {
      id: "finishRotation",
      summary: "End the rotation of an account's webhook secret",
      description:
        "The next secret signs alone from now on, and the one before it is forgotten: do this once every receiver knows " +
        "the next one.",
    },
    async make(store, { login }) {
      if ((await store.finishRotation(login)) !== "not rotating") return;
      const detail = "The secret of this account is not rotating: begin a rotation first.";
      throw new StatusError(40000, { detail });
    },
  },
];
