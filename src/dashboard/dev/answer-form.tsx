import { useState } from "preact/hooks";

import type { WrittenAnswer } from "../../domain/webhook/inbox.ts";
import { announce } from "../part/announcer.tsx";
import { Problem } from "../part/notice.tsx";
import { Panel } from "../part/panel.tsx";
import { call } from "../shell/api.ts";
import { useSubmission } from "../shell/submission.ts";

/** Sets how an inbox answers its next messages. */
export function AnswerForm({ box }: { readonly box: string }) {
  const [next, setNext] = useState("");
  const [last, setLast] = useState("");
  const submission = useSubmission();
  async function set(): Promise<void> {
    const answers = readAnswers(next);
    const [then] = readAnswers(last);
    await call("PUT /dev/inbox/:box/answers", { params: { box }, body: { answers, then } });
    announce(`The inbox ${box} answers so from now on.`);
  }
  return (
    <Panel title="Answers">
      <form
        class="panel-body row"
        onSubmit={(event) => {
          event.preventDefault();
          submission.run(set);
        }}
      >
        <Field
          name="Next, one by one"
          example="500, hang, reset, 503 after 300"
          value={next}
          change={setNext}
        />
        <Field name="Then" example="200" value={last} change={setLast} />
        <button type="submit" class="button button-small" disabled={submission.isBusy}>
          Set
        </button>
      </form>
      {submission.problem !== null && <Problem text={submission.problem} />}
    </Panel>
  );
}

/** The answers in a text such as `500, hang, 503 after 300`; the daemon refuses what is none. */
function readAnswers(text: string): readonly WrittenAnswer[] {
  const words = text.split(",").map((word) => word.trim());
  return words.filter((word) => word !== "").map(readAnswer);
}

function readAnswer(word: string): WrittenAnswer {
  const [, status, afterMs] = /^(\d+)(?: after (\d+)(?: ?ms)?)?$/.exec(word) ?? [];
  if (afterMs !== undefined) return { status: Number(status), after_ms: Number(afterMs) };
  if (status !== undefined) return Number(status);
  if (word === "hang" || word === "reset") return word;
  throw new Error(
    `“${word}” is no answer: write a status such as 503, hang, reset, or 503 after 300 (milliseconds).`,
  );
}

interface FieldProps {
  readonly name: string;
  readonly example: string;
  readonly value: string;
  readonly change: (value: string) => void;
}

function Field({ name, example, value, change }: FieldProps) {
  return (
    <label class="field">
      {name}
      <input
        value={value}
        placeholder={example}
        autocomplete="off"
        spellcheck={false}
        onInput={({ currentTarget }) => change(currentTarget.value)}
      />
    </label>
  );
}
