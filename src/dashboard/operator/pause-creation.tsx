import { useState } from "preact/hooks";

import { ANY_TASK, formatTaskSearch } from "../../domain/task/task-search.ts";
import { scopeText } from "../../domain/webhook/delivery-pause.ts";
import { FormDialog } from "../part/action-dialog.tsx";
import { announce } from "../part/announcer.tsx";
import { ApiError, call } from "../shell/api.ts";
import { actsFor } from "../shell/route.ts";

interface PauseCreationProps {
  readonly close: () => void;
  readonly done: () => void;
}

interface NamedScope {
  readonly login: string | null;
  readonly host: string | null;
}

/** Asks which webhooks to pause, and pauses them: a doubtful pause only after a second question. */
export function PauseCreation({ close, done }: PauseCreationProps) {
  const [login, setLogin] = useState(actsFor.peek() ?? "");
  const [host, setHost] = useState("");
  const [reason, setReason] = useState("");
  // The scope that was asked about, and the question.
  const [asked, setAsked] = useState({ what: "", doubt: "" });
  const scope = { login: login.trim() || null, host: host.trim() || null };
  const what = scopeText(scope);
  const doubt = asked.what === what ? asked.doubt : "";
  async function pause(): Promise<void> {
    const found = asked.what === what ? null : await doubtOf(scope);
    if (found !== null) return setAsked({ what, doubt: found });
    const body = { ...scope, reason: reason.trim() || null };
    const { pause: made } = await call("POST /v1/operator/delivery_pauses", { body });
    announce(`Paused: ${scopeText(made)}.`);
    close();
    done();
  }
  return (
    <FormDialog
      title="Pause webhooks"
      verb={doubt === "" ? "Pause them" : "Pause them anyway"}
      otherwise="Close"
      work={pause}
      close={close}
    >
      <Field name="Account" empty="every account" value={login} change={setLogin} />
      <Field name="Host" empty="every host" value={host} change={setHost} />
      <Field name="Reason" empty="for other operators" value={reason} change={setReason} />
      <p class="wraps">
        <b>This pauses {what}.</b> No attempt starts until you resume them. Attempts in flight
        finish. Tasks run, their webhooks wait, and a pause uses up no retries.
      </p>
      {doubt !== "" && (
        <div class="notice notice-warning" role="alert">
          <p>{doubt}</p>
        </div>
      )}
    </FormDialog>
  );
}

/** The reason to ask again before this pause; null if none exists. */
async function doubtOf({ login, host }: NamedScope): Promise<string | null> {
  if (host === null) {
    return login === null ? "No webhook of any account is sent until you resume them." : null;
  }
  const q = formatTaskSearch({ ...ANY_TASK, login, host });
  const options = { query: { q, limit: 1 }, account: null };
  const page = await call("GET /v1/tasks/search", options).catch((error: unknown) => {
    // The pause itself is refused with the reason.
    if (error instanceof ApiError && error.status === 400) return null;
    throw error;
  });
  if (page === null || page.tasks.length > 0 || page.next_cursor !== null) return null;
  const whose = login === null ? "No webhook" : `No webhook of ${login}`;
  return `${whose} goes to ${host}. A pause covers exactly this host, without its subdomains.`;
}

interface FieldProps {
  readonly name: string;
  /** The meaning of an empty field. */
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
