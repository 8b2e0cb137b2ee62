import { render } from "preact";
import { App, begin } from "./app.tsx";
import "./style/style.css";

begin();
render(<App />, document.getElementById("app")!);
