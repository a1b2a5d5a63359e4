package phases

// What the tests of this package look at inside of it.
var (
	Ahead      = ahead
	Handlers   = handlers
	Interrupts = interrupts
	Questions  = questions
	QuestionOf = questionOf
)
