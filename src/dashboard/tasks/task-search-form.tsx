import { useEffect, useId, useState } from "preact/hooks";

import {
  SEARCHED_DELIVERIES,
  SEARCHED_STATES,
  SEARCH_WORDS,
} from "../../domain/task/task-search.ts";
import { Button, Segments } from "../part/control.tsx";
import { Time, stateText } from "../part/figure.tsx";
import { Empty } from "../part/panel.tsx";
import { countText } from "../shell/format.ts";
import { hrefOf, setQuery } from "../shell/route.ts";
import { isOperator } from "../shell/session.ts";
import {
  PAGE_SIZE,
  type TaskPage,
  listedIn,
  searchWords,
  toggled,
  withoutWord,
} from "./task-page.ts";

const FIELD_ID = "task-search";

export function focusSearch(): void {
  const field = document.querySelector<HTMLInputElement>(`#${FIELD_ID}`);
  field?.focus();
  field?.select();
}

/** Searches for something else, from its first page on. */
export function search(q: string): void {
  setQuery({ q: q.trim(), cursor: null });
}

interface TaskSearchFormProps {
  readonly q: string;
  /** The problem with the search; null where it has none. */
  readonly fault: string | null;
}

/** The search in words, and the usual words to click. */
export function TaskSearchForm({ q, fault }: TaskSearchFormProps) {
  const [draft, setDraft] = useState(q);
  const hintId = useId();
  // A filter or the browser's buttons may have changed it.
  useEffect(() => setDraft(q), [q]);
  return (
    <form
      role="search"
      class="stack stack-small task-search"
      onSubmit={(event) => {
        event.preventDefault();
        search(draft);
      }}
    >
      <div class="line task-search-line">
        <input
          id={FIELD_ID}
          // Not "search": browsers clear such a field at Escape and by a button of their own, and the list would not
          // follow.
          type="text"
          enterkeyhint="search"
          aria-label="Search tasks"
          aria-describedby={hintId}
          aria-invalid={fault !== null}
          placeholder="tag:order-17  state:failed  host:example.com"
          autocomplete="off"
          autocapitalize="off"
          spellcheck={false}
          value={draft}
          onInput={(event) => setDraft(event.currentTarget.value)}
          onKeyDown={(event) => {
            if (event.key === "Escape" && draft === q) event.currentTarget.blur();
            else if (event.key === "Escape") setDraft(q);
          }}
        />
        <button type="submit" class="button">
          Search
        </button>
        {q !== "" && (
          <Button isLarge press={() => search("")}>
            Clear
          </Button>
        )}
      </div>
      <p
        id={hintId}
        class={fault === null ? "hint" : "tone-bad"}
        role={fault ? "alert" : undefined}
      >
        {fault ?? <Hint />}
      </p>
      <div class="row">
        <Filter q={q} name="state" label="State" values={SEARCHED_STATES} />
        <Filter q={q} name="delivery" label="Webhooks" values={SEARCHED_DELIVERIES} />
      </div>
    </form>
  );
}

// Chips, and the times with their examples.
const SHOWN_APART = new Set(["state", "delivery", "after", "before"]);

function Hint() {
  const names = SEARCH_WORDS.filter((word) => {
    return !SHOWN_APART.has(word) && (word !== "account" || isOperator.value);
  });
  return (
    <>
      Words that must all hold: {names.map((name) => `${name}:`).join(" ")} after:2h before:7d. A
      bare word is a tag or an id.
    </>
  );
}

interface FilterProps {
  readonly q: string;
  readonly name: string;
  readonly label: string;
  readonly values: readonly string[];
}

function Filter({ q, name, label, values }: FilterProps) {
  return (
    <div class="row">
      <span class="small" aria-hidden="true">
        {label}
      </span>
      <Segments
        label={label}
        options={values.map((value) => ({ value, text: stateText(value) }))}
        value={listedIn(q, name)}
        choose={(value) => search(toggled(q, name, value))}
      />
    </div>
  );
}

export function PageEnd({ page: { rows, next, examinedUntil } }: { readonly page: TaskPage }) {
  if (next === null) return null;
  const older = () => {
    setQuery({ cursor: next });
    globalThis.scrollTo(0, 0);
  };
  const isShort = rows.length < PAGE_SIZE;
  return (
    <div class="row rule-above page-end">
      {isShort && examinedUntil !== null && (
        <p class="hint">
          {rows.length === 0 ? "Nothing" : "Nothing more"} among tasks created since{" "}
          <Time at={examinedUntil} />.
        </p>
      )}
      <Button isLarge press={older}>
        {isShort ? "Keep searching" : "Older tasks"}
      </Button>
    </div>
  );
}

interface NothingFoundProps {
  readonly q: string;
  /** Older tasks exist that the search has not examined. */
  readonly hasMore: boolean;
  readonly isFirst: boolean;
}

/** Why there is nothing, and what to do about it. */
export function NothingFound({ q, hasMore, isFirst }: NothingFoundProps) {
  const words = searchWords(q);
  if (words.length === 0) return isFirst ? <NoTasks /> : <Empty title="No older task exists." />;
  return (
    <Empty title={hasMore ? "Nothing found so far." : "No task matches all words."}>
      <p>{words.length === 1 ? "Remove the word:" : "Try removing a word:"}</p>
      <div class="row">
        {words.map((word, index) => (
          <button
            key={`${index} ${word}`}
            type="button"
            class="chip"
            onClick={() => search(withoutWord(q, index))}
          >
            without <bdi class="clipped">{word}</bdi>
          </button>
        ))}
      </div>
    </Empty>
  );
}

function NoTasks() {
  return (
    <Empty title="No task has been posted yet.">
      <p>
        Post the first one above. <a href={hrefOf("/")}>The overview</a> has a command to paste.
      </p>
      <p class="hint">Tasks appear here by themselves, {countText(PAGE_SIZE)} on a page.</p>
    </Empty>
  );
}
