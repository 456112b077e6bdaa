import { useState } from "preact/hooks";

import { Problem } from "../part/panel.tsx";
import { errorText } from "./api.ts";
import { Mark } from "./navigation.tsx";
import { sessionNote, signIn } from "./session.ts";

/** The page where an account signs in, and where the operator learns how to. */
export function SignInScreen() {
  const [problem, setProblem] = useState<string | null>(null);
  const [isBusy, setBusy] = useState(false);
  async function submit(event: SubmitEvent): Promise<void> {
    event.preventDefault();
    if (!(event.currentTarget instanceof HTMLFormElement)) return;
    const form = new FormData(event.currentTarget);
    setBusy(true);
    try {
      await signIn({ login: textOf(form, "login"), key: textOf(form, "key") });
    } catch (error) {
      setProblem(errorText(error));
      setBusy(false);
    }
  }
  const note = problem ?? sessionNote.value;
  return (
    <main class="stack sign-in">
      <h1 class="line">
        <Mark /> postbackd
      </h1>
      {note !== null && <Problem text={note} />}
      <form class="panel panel-body stack" onSubmit={(event) => void submit(event)}>
        <label class="stack stack-tight field">
          Login
          <input name="login" autocomplete="username" required autofocus spellcheck={false} />
        </label>
        <label class="stack stack-tight field">
          API key
          <input
            name="key"
            type="password"
            autocomplete="current-password"
            required
            placeholder="pbd_live_…"
          />
        </label>
        <button type="submit" class="button button-primary" disabled={isBusy}>
          Sign in
        </button>
      </form>
      <p class="hint">
        Running this daemon? Create a sign-in link on its host: <code>postbackd admin link</code>
      </p>
    </main>
  );
}

function textOf(form: FormData, name: string): string {
  const value = form.get(name);
  return typeof value === "string" ? value.trim() : "";
}
