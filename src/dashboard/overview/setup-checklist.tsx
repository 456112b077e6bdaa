import { signal } from "@preact/signals";
import type { ComponentChildren } from "preact";
import { useEffect, useId, useState } from "preact/hooks";

import type { Setup } from "../../api/stats.ts";
import { Button } from "../part/button.tsx";
import { isOperator, session, shownAccount } from "../shell/session.ts";
import { firstSteps } from "./setup-step.tsx";

const dismissals = signal(0);

/** Whether the first steps are shown: until each is done, or until the reader hides them. */
export function useSetup(setup: Setup | null): { isShown: boolean; dismiss: () => void } {
  const isDismissed = dismissals.value >= 0 && wasDismissed();
  return {
    isShown: setup !== null && !isDismissed && Object.values(setup).includes(false),
    dismiss: () => {
      remember();
      dismissals.value++;
    },
  };
}

interface SetupChecklistProps {
  readonly setup: Setup;
  readonly dismiss: () => void;
}

/** The first steps, with text to paste for each. A finished step ticks itself off. */
export function SetupChecklist({ setup, dismiss }: SetupChecklistProps) {
  const steps = firstSteps(setup).filter(({ isForOperator }) => isOperator.value || !isForOperator);
  const next = steps.findIndex(({ isDone }) => !isDone);
  const done = steps.filter(({ isDone }) => isDone).length;
  const titleId = useId();
  return (
    <section class="panel setup" aria-labelledby={titleId}>
      <div class="panel-head">
        <h2 id={titleId}>First steps</h2>
        <span class="hint" aria-live="polite">
          {done} of {steps.length} done
        </span>
        <Button press={dismiss}>Hide</Button>
      </div>
      <ol>
        {steps.map(({ title, isDone, Body }, i) => (
          <Step key={title} title={`${i + 1}. ${title}`} isDone={isDone} isNext={i === next}>
            <Body setup={setup} />
          </Step>
        ))}
      </ol>
    </section>
  );
}

interface StepProps {
  readonly title: string;
  readonly isDone: boolean;
  readonly isNext: boolean;
  readonly children: ComponentChildren;
}

function Step({ title, isDone, isNext, children }: StepProps) {
  const [isOpen, setOpen] = useState(isNext);
  useEffect(() => setOpen(isNext), [isNext]);
  return (
    <li class={isDone ? "setup-done" : undefined}>
      <details open={isOpen} onToggle={({ currentTarget }) => setOpen(currentTarget.open)}>
        <summary>
          <Tick isDone={isDone} />
          <span>{title}</span>
          {isDone && <span class="off-screen">: done</span>}
        </summary>
        {isOpen && <div class="setup-body">{children}</div>}
      </details>
    </li>
  );
}

function Tick({ isDone }: { readonly isDone: boolean }) {
  return (
    <svg class="icon setup-tick" viewBox="0 0 16 16" aria-hidden="true">
      <circle cx="8" cy="8" r="6.5" />
      {isDone && <path d="M5 8.2l2.1 2.1L11 6.2" />}
    </svg>
  );
}

function storageKey(): string {
  const whose = shownAccount.value ?? session.value?.role ?? "";
  return `postbackd.first-steps.${whose}`;
}

// Browsers may be told to keep nothing: then the steps come back.
function wasDismissed(): boolean {
  try {
    return localStorage.getItem(storageKey()) === "hidden";
  } catch {
    return false;
  }
}

function remember(): void {
  try {
    localStorage.setItem(storageKey(), "hidden");
  } catch {
    // As above.
  }
}
