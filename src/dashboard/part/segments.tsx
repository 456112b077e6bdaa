interface SegmentsProps<Value extends string> {
  /** The meaning of the choice, for screen readers. */
  readonly label: string;
  readonly options: readonly { readonly value: Value; readonly text: string }[];
  /** Null: none is chosen. */
  readonly value: Value | null;
  readonly choose: (value: Value) => void;
}

/** A choice among a few options, all of them visible. */
export function Segments<Value extends string>(props: SegmentsProps<Value>) {
  const { label, options, value: chosen, choose } = props;
  return (
    <div class="segments" role="group" aria-label={label}>
      {options.map(({ value, text }) => (
        <button
          key={value}
          type="button"
          aria-pressed={value === chosen}
          onClick={() => choose(value)}
        >
          {text}
        </button>
      ))}
    </div>
  );
}
