interface LoginFieldProps {
  readonly login: string;
  readonly change: (login: string) => void;
}

/** The field for the login of a new account. */
export function LoginField({ login, change }: LoginFieldProps) {
  return (
    <label class="field">
      Login
      <input
        value={login}
        required
        autofocus
        autocomplete="off"
        spellcheck={false}
        maxLength={64}
        pattern="[A-Za-z0-9._@+\-]{1,64}"
        onInput={({ currentTarget }) => change(currentTarget.value)}
      />
      <span class="hint">1 to 64 letters, digits, or any of . _ @ + -</span>
    </label>
  );
}
