import { useRef, useState } from "preact/hooks";

import { useKeys } from "../shell/keyboard.ts";
import { route, setQuery } from "../shell/route.ts";

interface FilterFieldProps {
  /** The field's label. */
  readonly label: string;
  /** The parameter of the URL. */
  readonly name?: string;
  /** Other parameters that become invalid when it changes. */
  readonly resets?: readonly string[];
}

const TYPING_MS = 200;

/** A field that narrows a list; its value is in the URL. `/` focuses it. */
export function FilterField({ label, name = "q", resets = [] }: FilterFieldProps) {
  const field = useRef<HTMLInputElement>(null);
  const timer = useRef<ReturnType<typeof setTimeout> | undefined>(undefined);
  // The text being written, until it is in the URL.
  const [draft, setDraft] = useState<string | null>(null);
  useKeys([{ key: "/", does: label, run: () => field.current?.focus() }]);
  function change(text: string): void {
    clearTimeout(timer.current);
    setDraft(text);
    const others = Object.fromEntries(resets.map((other) => [other, null]));
    const at = route.peek().path;
    timer.current = setTimeout(() => {
      setDraft(null);
      if (route.peek().path === at) setQuery({ [name]: text, ...others }, { replaces: true });
    }, TYPING_MS);
  }
  return (
    <input
      ref={field}
      type="search"
      class="filter-field"
      aria-label={label}
      placeholder={label}
      value={draft ?? route.value.query.get(name) ?? ""}
      onInput={({ currentTarget }) => change(currentTarget.value)}
      onKeyDown={({ key, currentTarget }) => {
        if (key === "Escape") currentTarget.blur();
      }}
    />
  );
}
