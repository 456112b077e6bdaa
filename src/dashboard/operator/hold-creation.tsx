import { useState } from "preact/hooks";

import { scopeText } from "../../domain/webhook/delivery-hold.ts";
import { FormDialog } from "../part/action-dialog.tsx";
import { announce } from "../part/announcer.tsx";
import { call } from "../shell/api.ts";
import { actsFor } from "../shell/route.ts";

interface HoldCreationProps {
  readonly close: () => void;
  readonly done: () => void;
}

/** Asks which webhooks are to be held, and holds them. */
export function HoldCreation({ close, done }: HoldCreationProps) {
  const [login, setLogin] = useState(actsFor.peek() ?? "");
  const [host, setHost] = useState("");
  const [reason, setReason] = useState("");
  const scope = { login: login.trim() || null, host: host.trim() || null };
  async function hold(): Promise<void> {
    const body = { ...scope, reason: reason.trim() || null };
    const { hold: made } = await call("POST /v1/operator/delivery_holds", { body });
    announce(`Held: ${scopeText(made)}.`);
    close();
    done();
  }
  return (
    <FormDialog title="Hold webhooks" verb="Hold them" otherwise="Close" work={hold} close={close}>
      <Field name="Account" empty="every account" value={login} change={setLogin} />
      <Field name="Host" empty="every host" value={host} change={setHost} />
      <Field name="Reason" empty="for whoever finds it" value={reason} change={setReason} />
      <p class="wraps">
        <b>This holds {scopeText(scope)}.</b> None is begun until you release them; what is under
        way goes to its end. Tasks run on, what they have to send waits, and no retry is lost.
      </p>
    </FormDialog>
  );
}

interface FieldProps {
  readonly name: string;
  /** Its meaning where nothing is written. */
  readonly empty: string;
  readonly value: string;
  readonly change: (value: string) => void;
}

function Field({ name, empty, value, change }: FieldProps) {
  return (
    <label class="field">
      {name}
      <input
        value={value}
        placeholder={empty}
        autocomplete="off"
        spellcheck={false}
        onInput={({ currentTarget }) => change(currentTarget.value)}
      />
    </label>
  );
}
