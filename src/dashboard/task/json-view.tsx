import type { ComponentChildren } from "preact";
import { useState } from "preact/hooks";

import { CopyButton } from "../part/control.tsx";
import { bytesText, countOf, countText } from "../shell/format.ts";
import { JsonNumber, type JsonSource, isList, isObject } from "./json-source.ts";

interface JsonViewProps {
  readonly value: JsonSource;
  /** How many levels are open at first. */
  readonly depth: number;
}

// More items would make the page slow.
const ITEMS_MAX = 100;
// Longer lists within others are closed at first.
const OPEN_MAX = 30;
const STRING_LENGTH_MAX = 2000;

/** JSON as a tree whose branches open and close. Everything in it is text. */
export function JsonView({ value, depth }: JsonViewProps) {
  return (
    <div class="json mono">
      <Node value={value} depth={depth} name={null} />
    </div>
  );
}

interface NodeProps {
  readonly name: string | null;
  readonly value: JsonSource;
  readonly depth: number;
}

function Node({ name, value, depth }: NodeProps) {
  const label = name !== null && <span class="none">{name}: </span>;
  const items = isList(value)
    ? value.map((item, i) => [String(i), item] as const)
    : isObject(value)
      ? Object.entries(value).map(([key, item]) => [JSON.stringify(key), item] as const)
      : null;
  const brackets = isList(value) ? (["[", "]"] as const) : (["{", "}"] as const);
  if (items === null || items.length === 0) {
    return (
      <div class="json-leaf">
        {label}
        {items === null ? <Leaf value={value} /> : brackets.join("")}
      </div>
    );
  }
  return <Branch items={items} brackets={brackets} depth={depth} name={name} />;
}

interface BranchProps {
  readonly name: string | null;
  readonly items: readonly (readonly [name: string, value: JsonSource])[];
  readonly brackets: readonly [open: string, close: string];
  readonly depth: number;
}

function Branch({ name, items, brackets: [open, close], depth }: BranchProps) {
  const [isOpen, setOpen] = useState(depth > 0 && (name === null || items.length <= OPEN_MAX));
  const [shown, setShown] = useState(ITEMS_MAX);
  const rest = items.length - shown;
  return (
    <details open={isOpen} onToggle={(event) => setOpen(event.currentTarget.open)}>
      <summary>
        {name !== null && <span class="none">{name}: </span>}
        {open}
        {!isOpen && ` … ${close}`}{" "}
        <span class="none">{countOf(items.length, open === "[" ? "item" : "member")}</span>
      </summary>
      {isOpen && (
        <div class="json-items">
          {items.slice(0, shown).map(([key, item]) => (
            <Node key={key} name={key} value={item} depth={depth - 1} />
          ))}
          {rest > 0 && (
            <button
              type="button"
              class="link-button"
              onClick={() => setShown(shown + 10 * ITEMS_MAX)}
            >
              {countText(rest)} more
            </button>
          )}
          {close}
        </div>
      )}
    </details>
  );
}

function Leaf({ value }: { readonly value: JsonSource }) {
  const [isWhole, setWhole] = useState(false);
  if (value instanceof JsonNumber) return <span class="tone-busy">{value.source}</span>;
  const text = JSON.stringify(value);
  if (typeof value !== "string") return <span class="tone-warn">{text}</span>;
  const isLong = text.length > STRING_LENGTH_MAX && !isWhole;
  return (
    <span class="tone-good">
      <bdi>{isLong ? `${text.slice(0, STRING_LENGTH_MAX).toWellFormed()}…` : text}</bdi>
      {isLong && (
        <button type="button" class="link-button" onClick={() => setWhole(true)}>
          all {countText(text.length)} characters
        </button>
      )}
    </span>
  );
}

interface CodeBlockProps {
  readonly title: string;
  readonly text: string;
  /** The noun in the button's name. */
  readonly what: string;
  readonly children?: ComponentChildren;
}

// Browsers cannot lay out more items.
const SHOWN_LENGTH_MAX = 262_144;

/** Text as it is, character for character, to be read and copied. */
export function CodeBlock({ title, text, what, children }: CodeBlockProps) {
  const isCut = text.length > SHOWN_LENGTH_MAX;
  return (
    <div class="code">
      <div class="line code-head">
        <h3>{title}</h3>
        {children}
        <CopyButton text={text} what={what} />
      </div>
      <pre class="code-block" tabIndex={0} aria-label={title}>
        {isCut ? text.slice(0, SHOWN_LENGTH_MAX).toWellFormed() : text}
      </pre>
      {isCut && (
        <p class="hint">
          The first {bytesText(SHOWN_LENGTH_MAX)} are shown; copying takes all of it.
        </p>
      )}
    </div>
  );
}
