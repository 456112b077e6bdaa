/** JSX is compiled to calls of the two functions: the build adds them to every file with JSX. */
export { Fragment, h } from "preact";
